#include "pipeline.h"

#include "assembly.h"
#include "files.h"
#include "list.h"
#include "lower.h"
#include "profiles.h"
#include "report.h"

#include "tally/ptx/transforms/verify.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <map>

namespace tally::ptxopt {
namespace {

/// Jobs and files made from the inputs of one run.
struct Work {
  std::vector<std::unique_ptr<Job>> jobs; ///< jobs of PTX inputs, and of the PTX in containers
  std::vector<std::unique_ptr<ContainerFile>> containers;
};

/// Whether the run left device code as it was or a kernel without one of the kinds; --strict counts
/// both. A missing kind does not count if the kernel has no long loop and so does not need the
/// kind, or if the profile left the kind out.
bool anyNotEmitted(const Work &work) {
  for (const auto &file : work.containers)
    if (!remarksOn(*file).empty())
      return true;
  std::string_view needless = ptx::factsOf(ptx::Reason::NoLongLoop).code;
  for (const auto &job : work.jobs)
    for (const ptx::RewrittenKernel &kernel : job->kernels)
      for (const ptx::Variant &variant : kernel.variants)
        if (variant.verdict.status != Status::Emitted && variant.verdict.reason != needless &&
            variant.verdict.reason != leftOutByProfile)
          return true;
  return false;
}

/// Drops the slices of kernels with a guard: a guard does the work of a slice and is not slower.
/// Must be called when the kinds of all jobs are settled except for rejections by ptxas.
void dropSlicesOfGuarded(Work &work) {
  auto isGuard = [](const ptx::Variant &variant) {
    return variant.verdict.kind == Kind::Guard && variant.verdict.status == Status::Emitted;
  };
  auto isSlice = [](const ptx::Variant &variant) { return variant.verdict.kind == Kind::Slice; };
  for (const auto &job : work.jobs)
    for (ptx::RewrittenKernel &kernel : job->kernels)
      if (llvm::any_of(kernel.variants, isGuard))
        llvm::erase_if(kernel.variants, isSlice);
}

/// Adds the PTX in a container as if each PTX were an input. Several outputs go to a directory.
Result<void> addPtxInside(const Options &options, const std::string &input,
                          const std::string &bytes, FileKind kind, Work &work) {
  std::size_t before = work.jobs.size();
  auto file = planContainerFile(options, input, bytes, kind, work.jobs);
  if (!file)
    return file.error();
  std::size_t count = work.jobs.size() - before;
  if (count == 0)
    return Error{input + ": there is no PTX in here"};
  if (count > 1 && !writesToDirectory(options))
    return Error{input + ": there are " + std::to_string(count) +
                 " PTX modules in it: say -o DIRECTORY/"};
  for (std::size_t i = before; i < work.jobs.size(); ++i) {
    auto output = outputPath(options, input, work.jobs[i]->part);
    if (!output)
      return output.error();
    work.jobs[i]->output = *output;
  }
  return {};
}

Result<void> addContainer(const Options &options, const std::string &input, std::string bytes,
                          FileKind kind, Work &work) {
  if (options.describes() || options.emit == Emit::Ptx)
    return addPtxInside(options, input, bytes, kind, work);
  auto output = containerOutputPath(options, input);
  if (!output)
    return output.error();
  auto file = planContainerFile(options, input, std::move(bytes), kind, work.jobs);
  if (!file)
    return file.error();
  (*file)->output = *output;
  work.containers.push_back(std::move(*file));
  return {};
}

Result<void> addInput(const Options &options, const std::string &input, Work &work) {
  auto bytes = readInput(input);
  if (!bytes)
    return bytes.error();
  FileKind kind = fileKindOf(*bytes, input);
  switch (kind) {
  case FileKind::Ptx: {
    auto job = startJob(options, input, *bytes);
    if (!job)
      return job.error();
    work.jobs.push_back(std::move(*job));
    return {};
  }
  case FileKind::Bitcode:
  case FileKind::LlvmText:
    return startLoweredJobs(options, input, *bytes, work.jobs);
  case FileKind::Fatbin:
  case FileKind::Object:
  case FileKind::Linked:
  case FileKind::Archive:
    return addContainer(options, input, std::move(*bytes), kind, work);
  case FileKind::Cubin:
    return Error{input + ": a cubin: there is no PTX in here"};
  case FileKind::ThinArchive:
    return Error{input + ": a thin archive: rewrite the objects that it names"};
  case FileKind::Bundle:
    return Error{input + ": a bundle: it has been rewritten already (--list shows it)"};
  case FileKind::Other:
    break;
  }
  return Error{input + ": this is no PTX, no LLVM module, and nothing that holds CUDA's fatbins"};
}

/// An Error if two inputs would be written to one file.
Result<void> checkOutputs(const Work &work) {
  std::map<std::string, std::string> byOutput;
  std::vector<std::pair<std::string, std::string>> outputs;
  for (const auto &job : work.jobs)
    outputs.emplace_back(job->output, job->input);
  for (const auto &file : work.containers)
    outputs.emplace_back(file->output, file->input);
  for (const auto &[output, input] : outputs)
    if (auto [place, isNew] = byOutput.emplace(output, input);
        !isNew && output != "-" && !output.empty())
      return Error{place->second + " and " + input + " would both be written to " + output};
  return {};
}

Result<void> writeContainer(const Options &options, const ContainerFile &file) {
  for (const std::string &remark : remarksOn(file))
    note(remark);
  auto bytes = rewriteContainerFile(options, file);
  if (!bytes)
    return bytes.error();
  // In place an unchanged file is not written, so its time stays.
  if (!*bytes && file.output == file.input)
    return {};
  return writeOutput(file.output, *bytes ? **bytes : file.bytes, file.input);
}

Result<void> writeReport(const Options &options, const std::vector<std::unique_ptr<Job>> &jobs) {
  if (options.report == ReportFormat::None)
    return {};
  return writeOutput(options.reportFile.empty() ? "-" : options.reportFile,
                     options.report == ReportFormat::Json ? jsonReport(jobs) : textReport(jobs));
}

Result<void> writeAll(const Options &options, const Work &work) {
  for (const auto &job : work.jobs)
    if (!job->output.empty())
      if (auto done = writeJob(options, *job); !done)
        return done;
  for (const auto &file : work.containers)
    if (auto done = writeContainer(options, *file); !done)
      return done;
  return writeReport(options, work.jobs);
}

} // namespace

int fail(const Error &error) {
  // Errors already rendered as file:line:col end in a newline.
  if (llvm::StringRef(error.message).ends_with("\n"))
    llvm::errs() << error.message;
  else
    llvm::errs() << "tally-ptxopt: error: " << error.message << '\n';
  return exitInput;
}

void note(std::string_view remark) {
  llvm::errs() << "tally-ptxopt: " << llvm::StringRef(remark).rtrim() << '\n';
}

int rewriteInputs(const Options &options) {
  Work work;
  bool inputFailed = false;
  for (const std::string &input : options.inputs)
    if (auto done = addInput(options, input, work); !done)
      inputFailed = fail(done.error());
  if (inputFailed)
    return exitInput;
  if (auto distinct = checkOutputs(work); !distinct)
    return fail(distinct.error());
  if (options.profiles)
    for (const auto &job : work.jobs)
      options.profiles->leaveOut(*job, options.slicesUnguarded);
  if (options.slicesUnguarded)
    dropSlicesOfGuarded(work);
  if (options.verifyEach)
    for (const auto &job : work.jobs)
      if (auto broken = ptx::verifyVariants(job->module, job->kernels)) {
        llvm::errs() << "tally-ptxopt: internal error: " << job->input << ": " << *broken << '\n';
        return exitInternal;
      }
  if (options.assemble)
    if (auto done = assembleJobs(options, work.jobs); !done)
      return fail(done.error());
  if (auto done = writeAll(options, work); !done)
    return fail(done.error());
  return options.strict && anyNotEmitted(work) ? exitStrict : 0;
}

int listInputs(const Options &options) {
  int status = 0;
  for (const std::string &input : options.inputs) {
    auto bytes = readInput(input);
    auto text = bytes ? listFile(input, *bytes) : Result<std::string>(bytes.error());
    if (text)
      llvm::outs() << *text;
    else
      status = fail(text.error());
  }
  return status;
}

} // namespace tally::ptxopt
