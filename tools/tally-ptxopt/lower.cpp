#include "lower.h"

#include "assembly.h"
#include "combine.h"
#include "files.h"

#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Verifier.h"
#include "llvm/IRReader/IRReader.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Target/TargetOptions.h"

#include <fmt/format.h>

#include <algorithm>

namespace tally::ptxopt {
namespace {

/// The newest PTX version that the assemblers in use accept (CUDA 13.0). Without it LLVM chooses
/// the oldest version that has the architecture.
constexpr const char *features = "+ptx90";

Result<std::unique_ptr<llvm::Module>>
parseModule(llvm::LLVMContext &context, const std::string &input, std::string_view bytes) {
  llvm::SMDiagnostic diagnostic;
  auto module = llvm::parseIR(llvm::MemoryBufferRef(bytes, input), diagnostic, context);
  if (!module) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    diagnostic.print(nullptr, stream, /*ShowColors=*/false);
    return Error{text};
  }
  std::string broken;
  llvm::raw_string_ostream stream(broken);
  if (llvm::verifyModule(*module, &stream))
    return Error{input + ": not a valid module: " + broken};
  if (!module->getTargetTriple().isNVPTX())
    return Error{input + ": an LLVM module for '" + module->getTargetTriple().str() +
                 "'; only nvptx64 has kernels"};
  return module;
}

} // namespace

Result<std::string> lowerToPtx(const std::string &input, std::string_view bytes,
                               std::uint32_t arch) {
  LLVMInitializeNVPTXTargetInfo();
  LLVMInitializeNVPTXTarget();
  LLVMInitializeNVPTXTargetMC();
  LLVMInitializeNVPTXAsmPrinter();
  // By default LLVM ends the process at the first error.
  std::string errors;
  llvm::LLVMContext context;
  context.setDiagnosticHandlerCallBack(
      [](const llvm::DiagnosticInfo *info, void *text) {
        if (info->getSeverity() != llvm::DS_Error)
          return;
        llvm::raw_string_ostream stream(*static_cast<std::string *>(text));
        llvm::DiagnosticPrinterRawOStream printer(stream);
        info->print(printer);
        stream << '\n';
      },
      &errors);
  auto module = parseModule(context, input, bytes);
  if (!module)
    return module.error();
  std::string why;
  const llvm::Triple &triple = (*module)->getTargetTriple();
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, why);
  if (!target)
    return Error{input + ": " + why};
  std::unique_ptr<llvm::TargetMachine> machine(target->createTargetMachine(
      triple, fmt::format("sm_{}", arch), features, llvm::TargetOptions(), llvm::Reloc::PIC_));
  (*module)->setDataLayout(machine->createDataLayout());
  llvm::SmallVector<char, 0> text;
  llvm::raw_svector_ostream stream(text);
  llvm::legacy::PassManager passes;
  if (machine->addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::AssemblyFile))
    return Error{input + ": LLVM's back end writes no PTX"};
  passes.run(**module);
  if (!errors.empty())
    return Error{input + ": sm_" + std::to_string(arch) + ": " + errors};
  return std::string(text.begin(), text.end());
}

Result<void> startLoweredJobs(const Options &options, const std::string &input,
                              std::string_view bytes, std::vector<std::unique_ptr<Job>> &jobs) {
  std::vector<std::uint32_t> architectures = options.architectures;
  if (architectures.empty())
    architectures = {90};
  std::sort(architectures.begin(), architectures.end());
  if (architectures.size() > 1 && (options.emit != Emit::Bundle || options.describes()))
    return Error{input + ": each architecture has PTX of its own: say one --arch"};
  auto output = outputPath(options, input);
  if (!output)
    return output.error();
  std::vector<Job *> made;
  for (std::uint32_t arch : architectures) {
    auto text = lowerToPtx(input, bytes, arch);
    if (!text)
      return text.error();
    auto job = makeJob(options, fmt::format("{}: sm_{}", input, arch), *text);
    if (!job)
      return job.error();
    (*job)->sourceHash = bundle::hashOf(bytes);
    if (options.assemble)
      (*job)->targets = {{{arch, ""}, {}}};
    made.push_back(job->get());
    jobs.push_back(std::move(*job));
  }
  made.front()->output = *output;
  makeSiblings(made);
  return {};
}

} // namespace tally::ptxopt
