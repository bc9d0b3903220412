// The steps of --device=cuda, on the emulator as the runtime's device: another host thread raises
// and withdraws requests while blocks run on several virtual SMs.
#include "input.h"
#include "ptx_text.h"
#include "table.h"
#include "target.h"
#include "verify.h"
#include "workload.h"

#include "tally/runtime/device.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace tally;
using namespace tally::verify;

namespace {

VerifyReport verifyOnDevice(const char *file, const char *kernel, const LaunchShape &shape,
                            const std::vector<std::string> &specs) {
  auto bundle = rewriteToBundle(readText(sourceRoot() / "test/kernels" / file), file);
  REQUIRE_MESSAGE(bundle, bundle.error().message);
  auto module = parsePtx(readText(sourceRoot() / "test/kernels" / file), file);
  REQUIRE(module);
  std::vector<ModuleVariable> variables = moduleVariables(*module);
  std::vector<ArgumentSpec> arguments;
  for (const std::string &spec : specs)
    arguments.push_back(*parseArgument(spec));
  auto workload = workloadOf(*bundle->kernel(kernel), shape, arguments);
  REQUIRE_MESSAGE(workload, workload.error().message);
  auto device = runtime::openEmulatorDevice({.smCount = 2, .residentBlocksPerSm = 2});
  REQUIRE_MESSAGE(device, device.error().message);
  return verify::verify(*targetOf(**device, *bundle), *workload, variables, {});
}

void checkAllOk(const VerifyReport &report) {
  REQUIRE_MESSAGE(!report.userTrouble, *report.userTrouble);
  REQUIRE(report.kinds.size() == allKinds.size());
  for (const KindReport &kind : report.kinds) {
    // Some of these kernels have no loop.
    if ((kind.kind == Kind::Pause || kind.kind == Kind::Checkpoint) &&
        kind.outcome == Outcome::Refused)
      continue;
    CHECK_MESSAGE(kind.outcome == Outcome::Ok, name(kind.kind), ": ", kind.message);
    CHECK(kind.runs > randomRuns);
    // The run whose request precedes the launch yields in any case.
    if (kind.kind != Kind::Slice)
      CHECK(kind.yields >= 1);
  }
}

} // namespace

TEST_CASE("results stand up to a storm of requests") {
  checkAllOk(verifyOnDevice("barrier_tiles.ptx", "barrier_tiles", {{40}, {64}},
                            {"ptr:u32:2560:zero", "ptr:u32:7680:random:5", "i32:3"}));
}

TEST_CASE("module variables are compared, and start afresh in each run") {
  checkAllOk(verifyOnDevice("module_state.ptx", "module_state", {{30}, {8}}, {"ptr:u32:240:zero"}));
}
