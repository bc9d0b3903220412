// tally-verify: checks that every variant of a kernel still computes the kernel's results,
// whichever blocks yield and whenever they do.
#include "input.h"
#include "launches.h"
#include "options.h"
#include "ptx_text.h"
#include "verify.h"

#include "tally/runtime/device.h"

#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <iterator>
#include <memory>
#include <vector>

namespace {

using namespace tally;

constexpr int exitOk = 0, exitInput = 1, exitWrong = 2;

int fail(std::string_view message) {
  fmt::print(stderr, "tally-verify: error: {}\n", message);
  return exitInput;
}

int verifyOn(verify::Target &target, const bundle::Bundle &bundle, const verify::Workload &workload,
             const verify::Options &options) {
  auto text = verify::ptxOf(bundle);
  std::vector<verify::ModuleVariable> variables;
  if (text) {
    auto module = verify::parsePtx(std::string(*text), options.file);
    if (!module)
      return fail(module.error().message);
    variables = verify::moduleVariables(*module);
  }
  verify::VerifyReport report = verify::verify(target, workload, variables, options.verify);
  fmt::print("{}", verify::toText(report, workload, options.verify));
  return report.good() ? exitOk : exitWrong;
}

/// Returns the CUDA device of this process, opened once.
Result<runtime::Device *> cudaDevice() {
  static Result<std::unique_ptr<runtime::Device>> device = runtime::openCudaDevice();
  if (!device)
    return device.error();
  return device->get();
}

int run(const verify::Options &options) {
  auto bundle = verify::readInput(options.file, options.coding, options.pollPeriod);
  if (!bundle)
    return fail(bundle.error().message);
  const bundle::Kernel *kernel = bundle->kernel(options.kernel);
  if (!kernel)
    return fail(fmt::format("{} has no kernel '{}'", options.file, options.kernel));
  auto workload = verify::workloadOf(*kernel, options.shape, options.arguments);
  if (!workload)
    return fail(workload.error().message);

  if (options.device == verify::DeviceChoice::Emulator) {
    auto target = verify::openMicroscope(*bundle);
    return target ? verifyOn(**target, *bundle, *workload, options) : fail(target.error().message);
  }
  auto device = cudaDevice();
  if (!device)
    return fail(device.error().message);
  return verifyOn(*verify::targetOf(**device, *bundle), *bundle, *workload, options);
}

/// Runs a table of launches; `common` are the options for all launches.
int runTable(const std::string &table, const std::vector<std::string_view> &common) {
  auto lines = verify::readLaunches(table);
  if (!lines)
    return fail(lines.error().message);
  std::size_t failed = 0;
  for (const verify::LaunchLine &line : *lines) {
    std::vector<std::string_view> arguments(line.arguments.begin(), line.arguments.end());
    arguments.insert(arguments.end(), common.begin(), common.end());
    auto options = verify::parseOptions(arguments);
    int status = options ? run(*options) : fail(options.error().message);
    if (status != exitOk) {
      ++failed;
      fmt::print("FAILED: {}\n", line.text);
    }
    std::fflush(stdout); // the last printed launch is the one before a launch that hangs
  }
  fmt::print("{} launches, {} failed\n", lines->size(), failed);
  return lines->empty() || failed != 0 ? exitWrong : exitOk;
}

/// A failed assertion in the rewriter ends the process; this handler prints the seeds of the
/// kernels being checked.
void nameSeeds(int signal) {
  std::uint64_t seeds[64];
  std::size_t count = verify::seedsUnderWay(seeds, std::size(seeds));
  for (std::size_t i = 0; i < count; ++i)
    fmt::print(stderr, "tally-verify: seed {} was under way\n", seeds[i]);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

int generate(const verify::Options &options) {
  if (!options.writeFolder.empty()) {
    auto written = verify::writeKernels(options.campaign, options.writeFolder);
    return written ? exitOk : fail(written.error().message);
  }
  std::signal(SIGABRT, nameSeeds);
  std::signal(SIGSEGV, nameSeeds);
  auto report = verify::runCampaign(options.campaign);
  if (!report)
    return fail(report.error().message);
  fmt::print("{}", verify::toText(*report));
  return report->failures.empty() ? exitOk : exitWrong;
}

} // namespace

int main(int argc, char **argv) {
  std::vector<std::string_view> arguments(argv + 1, argv + argc);
  auto options = verify::parseOptions(arguments);
  if (!options)
    return fail(options.error().message);
  if (options->help) {
    fmt::print("{}", verify::helpText);
    return exitOk;
  }
  if (options->version) {
    fmt::print("tally-verify {}\n", TALLY_VERSION);
    return exitOk;
  }
  if (!options->launches.empty()) {
    std::erase_if(arguments, [](std::string_view each) { return each.starts_with("--launches="); });
    return runTable(options->launches, arguments);
  }
  return options->campaign.count != 0 ? generate(*options) : run(*options);
}
