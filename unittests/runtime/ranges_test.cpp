// NVTX ranges as a profiler's tool sees them, and the trace of the same calls.
#include "base/ranges.h"
#include "program.h"

#include "../support/files.h"

#include "tally/runtime/runtime.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <set>
#include <sstream>
#include <string>

using namespace tally;
using namespace tally::runtime;

namespace {

/// Makes a request and a few launches of either class.
void work(Runtime &runtime, const std::vector<Kernel> &kernels) {
  Client server = *runtime.createClient(Class::High, "server");
  Client trainer = *runtime.createClient(Class::BestEffort, "trainer");
  Stream high = *runtime.createStream(server), low = *runtime.createStream(trainer);
  DevicePtr memory = *runtime.allocate(Program::words * 8);
  auto launch = [&](Stream on) {
    REQUIRE(
        runtime.launch(on, kernels[0], {{4, 1, 1}, {64, 1, 1}, 0},
                       Arguments(memory, memory, std::uint64_t{Program::words}, std::uint64_t{7})));
  };
  for (int i = 0; i < 5; ++i)
    launch(low);
  REQUIRE(runtime.beginRequest(server));
  launch(high);
  REQUIRE(runtime.synchronize(high));
  REQUIRE(runtime.endRequest(server));
  REQUIRE(runtime.synchronize(low));
}

} // namespace

TEST_CASE("a tool that listens to NVTX sees requests and best-effort launches, each ended") {
  test::TemporaryFolder folder;
  std::string lines = folder.file("lines"), trace = folder.file("trace.json");
  setenv("NVTX_INJECTION64_PATH", TALLY_RANGES_TOOL, 1);
  setenv("RANGES_FILE", lines.c_str(), 1);
  REQUIRE(rangesAreOn());
  {
    auto device = std::make_unique<FakeDevice>(3);
    bundle::Bundle bundle = mixBundle(*device);
    device->startThread();
    RuntimeOptions options;
    options.trace = trace;
    options.kinds = {Kind::Guard};
    auto runtime = Runtime::openOn(std::move(device), options);
    REQUIRE(runtime);
    LoadedModule module = *(*runtime)->load(bundle);
    std::vector<Kernel> kernels;
    for (const std::string &name : mixNames)
      kernels.push_back(*(*runtime)->kernel(module, name));
    work(**runtime, kernels);
    REQUIRE((*runtime)->writeTrace());
    CHECK(test::contents(trace).find("\"server\"") != std::string::npos);
  }
  std::istringstream seen(test::contents(lines));
  std::set<std::string> open;
  std::size_t requests = 0, batches = 0;
  for (std::string what, number; seen >> what >> number;) {
    std::string rest;
    std::getline(seen, rest);
    if (what == "end") {
      CHECK(open.erase(number) == 1);
      continue;
    }
    CHECK(open.insert(number).second);
    requests += rest == " tally server";
    batches += rest.starts_with(" tally " + mixNames[0] + " (guard)");
  }
  CHECK(open.empty());
  CHECK(requests == 1);
  CHECK(batches >= 1);
  std::string text = test::contents(trace);
  CHECK(text.find("\"kind\":\"guard\"") != std::string::npos);
  CHECK(text.find("\"name\":\"active\"") != std::string::npos);
}
