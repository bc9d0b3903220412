#include "job.h"

#include "files.h"

#include "tally/bundle/bundle_writer.h"
#include "tally/ptx/syntax/parser.h"

#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <optional>

namespace tally::ptxopt {
namespace {

/// `file:line:col: error: sentence`, the line and a caret.
std::string render(const std::string &input, const std::string &source,
                   const ptx::Diagnostic &diagnostic) {
  llvm::SourceMgr manager;
  std::string name = input == "-" ? "<stdin>" : input;
  unsigned id =
      manager.AddNewSourceBuffer(llvm::MemoryBuffer::getMemBufferCopy(source, name), llvm::SMLoc());
  const char *start = manager.getMemoryBuffer(id)->getBufferStart();
  std::size_t offset = std::min(diagnostic.offset, source.size());
  std::size_t end = std::min(offset + diagnostic.length, source.size());
  auto at = [&](std::size_t position) { return llvm::SMLoc::getFromPointer(start + position); };
  llvm::SmallVector<llvm::SMRange, 1> ranges;
  if (end > offset)
    ranges.push_back({at(offset), at(end)});
  std::string text;
  llvm::raw_string_ostream stream(text);
  manager.PrintMessage(stream, at(offset), llvm::SourceMgr::DK_Error, diagnostic.message, ranges,
                       {}, /*ShowColors=*/false);
  return text;
}

} // namespace

Result<std::unique_ptr<Job>> startJob(const Options &options, const std::string &input) {
  auto text = readInput(input);
  if (!text)
    return text.error();
  auto parsed = ptx::parse(*text);
  if (auto *diagnostic = std::get_if<ptx::Diagnostic>(&parsed))
    return Error{render(input, *text, *diagnostic)};
  auto job = std::make_unique<Job>(input, std::move(std::get<ptx::Module>(parsed)));
  auto output = outputPath(options, input);
  if (!output)
    return output.error();
  job->output = *output;
  if (!options.describes())
    job->kernels =
        ptx::rewrite(job->module, {options.kinds, options.selects, options.assumesInOrder,
                                   options.choosesCodings(), options.coding});
  return job;
}

Result<void> checkOutputs(const std::vector<std::unique_ptr<Job>> &jobs) {
  std::map<std::string, const Job *> byOutput;
  for (const auto &job : jobs)
    if (auto [place, isNew] = byOutput.emplace(job->output, job.get());
        !isNew && job->output != "-")
      return Error{place->second->input + " and " + job->input + " would both be written to " +
                   job->output};
  return {};
}

namespace {

/// What is said of the kernels selected, each under its name.
std::string description(const Options &options, const Job &job) {
  ptx::ModuleFacts facts(job.module);
  std::string text;
  for (const ptx::Item &item : job.module.items()) {
    const ptx::Function *function = item.function.get();
    if (!function || !function->isEntry || !function->hasBody ||
        (options.selects && !options.selects(function->name)))
      continue;
    if (!options.printAnalysis) {
      text += ptx::cfgAsDot(*function);
      continue;
    }
    text += std::string(options.printAnalysis->name) + " of " + std::string(function->name) + '\n';
    text += options.printAnalysis->print(facts, *function) + '\n';
  }
  return text;
}

} // namespace

Result<void> writeJob(const Options &options, const Job &job) {
  if (options.describes())
    return writeOutput(job.output, description(options, job));
  if (options.emit == Emit::Ptx)
    return writeOutput(job.output, [&](const std::function<void(std::string_view)> &sink) {
      ptx::writeWithVariants(job.module, job.kernels, sink);
    });
  std::string text = ptx::textWithVariants(job.module, job.kernels);
  bundle::Bundle bundle;
  bundle.moduleHash = bundle::hashOf(job.module.source());
  for (const ptx::RewrittenKernel &kernel : job.kernels)
    bundle.kernels.push_back(ptx::describe(kernel));
  bundle.images.push_back({bundle::ImageFormat::Ptx, job.module.targetArch(), std::move(text)});
  for (const auto &[arch, assembled] : job.assembled)
    bundle.images.push_back({bundle::ImageFormat::Cubin, arch, assembled.cubin});
  return writeOutput(job.output, bundle::write(bundle));
}

} // namespace tally::ptxopt
