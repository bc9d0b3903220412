// tally-ptxopt: rewrites the kernels of PTX modules into variants that can be interrupted.
#include "files.h"
#include "job.h"
#include "options.h"
#include "report.h"

#include "tally/ptx/transforms/pass.h"
#include "tally/ptx/transforms/verify.h"

#include "llvm/Support/raw_ostream.h"

#include <csignal>
#include <unistd.h>

using namespace tally;

namespace {

constexpr int exitInput = 1, exitStrict = 2, exitInternal = 3;

/// A failed assertion is a bug of ours: exit 3, as --help says.
extern "C" void onAbort(int) {
  constexpr char message[] = "tally-ptxopt: internal error\n";
  if (write(STDERR_FILENO, message, sizeof(message) - 1) < 0)
    _exit(exitInternal);
  _exit(exitInternal);
}

/// Errors that are already rendered as file:line:col end in a newline.
int fail(const Error &error) {
  if (llvm::StringRef(error.message).ends_with("\n"))
    llvm::errs() << error.message;
  else
    llvm::errs() << "tally-ptxopt: error: " << error.message << '\n';
  return exitInput;
}

bool anyNotEmitted(const std::vector<std::unique_ptr<ptxopt::Job>> &jobs) {
  for (const auto &job : jobs)
    for (const ptx::RewrittenKernel &kernel : job->kernels)
      for (const ptx::Variant &variant : kernel.variants)
        if (variant.verdict.status != Status::Emitted)
          return true;
  return false;
}

Result<void> writeReport(const ptxopt::Options &options,
                         const std::vector<std::unique_ptr<ptxopt::Job>> &jobs) {
  if (options.report == ptxopt::ReportFormat::None)
    return {};
  return ptxopt::writeOutput(options.reportFile.empty() ? "-" : options.reportFile,
                             options.report == ptxopt::ReportFormat::Json
                                 ? ptxopt::jsonReport(jobs)
                                 : ptxopt::textReport(jobs));
}

} // namespace

int main(int argc, char **argv) {
  std::signal(SIGABRT, onAbort);
  auto options = ptxopt::parseCommandLine(argc, argv);
  if (!options)
    return fail(options.error());
  if (options->listPasses) {
    for (const ptx::PassFacts &pass : ptx::allPasses())
      llvm::outs() << name(pass.kind) << ": " << pass.help << '\n';
    return 0;
  }

  std::vector<std::unique_ptr<ptxopt::Job>> jobs;
  bool inputFailed = false;
  for (const std::string &input : options->inputs) {
    auto job = ptxopt::startJob(*options, input);
    if (job)
      jobs.push_back(std::move(*job));
    else
      inputFailed = fail(job.error());
  }
  if (inputFailed)
    return exitInput;
  if (auto distinct = ptxopt::checkOutputs(jobs); !distinct)
    return fail(distinct.error());
  if (options->verifyEach)
    for (const auto &job : jobs)
      if (auto broken = ptx::verifyVariants(job->module, job->kernels)) {
        llvm::errs() << "tally-ptxopt: internal error: " << job->input << ": " << *broken << '\n';
        return exitInternal;
      }
  if (options->assemble)
    if (auto done = ptxopt::assembleJobs(*options, jobs); !done)
      return fail(done.error());

  for (const auto &job : jobs)
    if (auto done = ptxopt::writeJob(*options, *job); !done)
      return fail(done.error());
  if (auto done = writeReport(*options, jobs); !done)
    return fail(done.error());
  return options->strict && anyNotEmitted(jobs) ? exitStrict : 0;
}
