// Clusters through the runtime, on the emulator: best-effort launches that yield again and again
// give the same results as one launch of the user's kernel, and the runtime refuses shapes that do
// not fit.
#include "input.h"
#include "table.h"

#include "tally/runtime/runtime.h"

#include <doctest/doctest.h>

#include <numeric>
#include <string>
#include <vector>

using namespace tally;
using namespace tally::runtime;
using Words = std::vector<std::uint32_t>;

namespace {

constexpr std::uint32_t threads = 32;

struct Opened {
  std::unique_ptr<Runtime> runtime;
  LoadedModule module{};
  Client background{}, requests{};
  Stream stream{};

  explicit Opened(std::vector<Kind> kinds) {
    auto text = verify::readText(verify::sourceRoot() / "test/kernels/clusters.ptx");
    auto bundle = verify::rewriteToBundle(text, "clusters.ptx");
    REQUIRE_MESSAGE(bundle, bundle.error().message);
    RuntimeOptions options;
    options.device = "emulator";
    options.kinds = std::move(kinds);
    auto opened = Runtime::open(options);
    REQUIRE_MESSAGE(opened, opened.error().message);
    runtime = std::move(*opened);
    module = *runtime->load(*bundle);
    background = *runtime->createClient(Class::BestEffort);
    requests = *runtime->createClient(Class::High);
    stream = *runtime->createStream(background);
  }

  Result<void> launch(const char *kernel, const LaunchShape &shape, DevicePtr out, DevicePtr in) {
    return runtime->launch(stream, *runtime->kernel(module, kernel), shape, Arguments(out, in));
  }
};

/// Returns the expected sums over clusters of `count` consecutive blocks.
Words expected(const Words &in, std::uint32_t count) {
  Words out(in.size());
  for (std::size_t first = 0; first < in.size(); first += std::size_t{count} * threads) {
    auto begin = in.begin() + static_cast<std::ptrdiff_t>(first);
    std::uint32_t sum =
        std::accumulate(begin, begin + static_cast<std::ptrdiff_t>(count * threads), 0u);
    for (std::size_t i = 0; i < std::size_t{count} * threads; ++i)
      out[first + i] = sum + static_cast<std::uint32_t>(i % threads);
  }
  return out;
}

} // namespace

TEST_CASE("cluster kernels under requests") {
  for (Kind kind : {Kind::Guard, Kind::Slice}) {
    Opened opened({kind});
    constexpr std::uint32_t blocks = 64;
    Words in(blocks * threads), out(in.size());
    std::iota(in.begin(), in.end(), 7u);
    DevicePtr from = *opened.runtime->allocate(in.size() * 4);
    DevicePtr to = *opened.runtime->allocate(in.size() * 4);
    struct Shape {
      const char *kernel;
      Dim3 cluster;
      std::uint32_t count;
    };
    for (const Shape &each :
         {Shape{"cluster_reduce_4", {0, 0, 0}, 4}, Shape{"cluster_reduce_4", {4, 1, 1}, 4},
          Shape{"cluster_reduce_at_launch", {0, 0, 0}, 1},
          Shape{"cluster_reduce_at_launch", {2, 1, 1}, 2},
          Shape{"cluster_reduce_at_launch", {8, 1, 1}, 8}}) {
      CAPTURE(each.kernel);
      CAPTURE(each.count);
      LaunchShape shape{{blocks, 1, 1}, {threads, 1, 1}, 0, each.cluster};
      REQUIRE(opened.runtime->copyToDevice(opened.stream, from, std::as_bytes(std::span(in))));
      REQUIRE(opened.runtime->fill(opened.stream, to, std::byte{0}, in.size() * 4));
      for (int i = 0; i < 20; ++i) {
        REQUIRE(opened.launch(each.kernel, shape, to, from));
        REQUIRE(opened.runtime->beginRequest(opened.requests));
        REQUIRE(opened.runtime->endRequest(opened.requests));
      }
      REQUIRE(
          opened.runtime->copyToHost(opened.stream, std::as_writable_bytes(std::span(out)), to));
      auto done = opened.runtime->synchronize(opened.stream);
      REQUIRE_MESSAGE(done, done.error().message);
      CHECK(out == expected(in, each.count));
    }
    CHECK(opened.runtime->statistics().bestEffortLaunches == 100);
  }
}

TEST_CASE("shapes that no cluster fits are refused at the call") {
  Opened opened({Kind::Guard, Kind::Slice});
  auto errorOf = [&](const char *kernel, Dim3 grid, Dim3 cluster) {
    auto launched = opened.launch(kernel, {grid, {threads, 1, 1}, 0, cluster}, 0, 0);
    return launched ? std::string() : launched.error().message;
  };
  CHECK(errorOf("cluster_reduce_4", {6, 1, 1}, {0, 0, 0}) ==
        "cluster_reduce_4: a grid of 6x1x1 blocks is no whole number of clusters of 4x1x1");
  CHECK(errorOf("cluster_reduce_4", {8, 1, 1}, {2, 1, 1}) ==
        "cluster_reduce_4: clusters of 2x1x1 blocks where the kernel demands 4x1x1");
  CHECK(errorOf("cluster_reduce_at_launch", {8, 1, 1}, {0, 1, 1}) ==
        "cluster_reduce_at_launch: clusters of 0x1x1 blocks are none that a device takes");
  CHECK(errorOf("cluster_reduce_at_launch", {64, 1, 1}, {32, 1, 1}) ==
        "cluster_reduce_at_launch: clusters of 32x1x1 blocks are none that a device takes");
}
