#include "job.h"

#include "assembly.h"
#include "combine.h"
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

/// Returns `file:line:col: error: sentence`, the line and a caret.
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

using Read = std::variant<ptx::RewrittenModule, ptx::Diagnostic>;

/// Parses the module with the kernels' bodies, which descriptions of kernels need.
Read parsedWhole(const std::string &text) {
  auto parsed = ptx::parse(text);
  if (auto *diagnostic = std::get_if<ptx::Diagnostic>(&parsed))
    return std::move(*diagnostic);
  return ptx::RewrittenModule{std::move(std::get<ptx::Module>(parsed)), {}};
}

Read rewritten(const Options &options, const std::string &text) {
  return ptx::rewriteText(text, {options.kinds, options.selects, options.assumesInOrder,
                                 options.choosesCodings(), options.polls, options.coding});
}

} // namespace

Result<std::unique_ptr<Job>> makeJob(const Options &options, const std::string &input,
                                     const std::string &text) {
  auto read = options.describes() ? parsedWhole(text) : rewritten(options, text);
  if (auto *diagnostic = std::get_if<ptx::Diagnostic>(&read))
    return Error{render(input, text, *diagnostic)};
  auto &[module, kernels] = std::get<ptx::RewrittenModule>(read);
  auto job = std::make_unique<Job>(input, std::move(module));
  job->kernels = std::move(kernels);
  return job;
}

Result<std::unique_ptr<Job>> startJob(const Options &options, const std::string &input,
                                      const std::string &text) {
  auto job = makeJob(options, input, text);
  if (!job)
    return job.error();
  auto output = outputPath(options, input);
  if (!output)
    return output.error();
  (*job)->output = *output;
  (*job)->sourceHash = bundle::hashOf(text);
  if (options.assemble) {
    auto targets = targetsOf(options, **job);
    if (!targets)
      return targets.error();
    (*job)->targets = std::move(*targets);
  }
  return job;
}

namespace {

/// Returns the description of each selected kernel under the kernel's name.
std::string description(const Options &options, const Job &job) {
  ptx::ModuleFacts facts(job.module);
  std::string text;
  for (const ptx::Item &item : job.module.items()) {
    const ptx::Function *function = item.function.get();
    if (!item.isKernel() || (options.selects && !options.selects(function->name)))
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
  std::vector<const Job *> jobs = {&job};
  jobs.insert(jobs.end(), job.siblings.begin(), job.siblings.end());
  bundle::Bundle bundle;
  bundle.moduleHash = job.sourceHash;
  bundle.kernels = combinedKernels(jobs);
  for (const Job *each : jobs)
    bundle.images.push_back({bundle::ImageFormat::Ptx, each->module.targetArch(),
                             ptx::textWithVariants(each->module, each->kernels)});
  for (const Job *each : jobs)
    for (const auto &[arch, assembled] : each->assembled)
      bundle.images.push_back({bundle::ImageFormat::Cubin, arch.number, assembled.cubin});
  return writeOutput(job.output, bundle::write(bundle));
}

} // namespace tally::ptxopt
