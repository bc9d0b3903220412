// Copies and fills by the hooks' own kernels: the conditions for them, their division into blocks,
// and that the hooks send them ahead.
#include "copying.h"

#include "work/own_bundle.h"
#include "work/own_kernels.h"

#include <cstring>
#include <thread>
#include <vector>

using namespace tally;
using namespace tally::test;

namespace {

/// Checks a plan by copying as the kernel does.
void checkCovers(const hooks::CopyPlan &plan, std::uint64_t to, std::uint64_t from,
                 std::uint64_t bytes) {
  std::uint64_t body = (bytes - plan.head) / plan.unit * plan.unit;
  CHECK(plan.head <= bytes);
  CHECK(plan.head < plan.unit);
  CHECK(bytes - plan.head - body < plan.unit);
  CHECK(plan.blocks >= 1);
  CHECK(plan.blocks * std::uint64_t{16384} >= body);
  if (body != 0) {
    CHECK((to + plan.head) % plan.unit == 0);
    CHECK((from + plan.head) % plan.unit == 0);
  }
}

} // namespace

TEST_CASE("plans cover a range by head, units and tail") {
  for (std::uint64_t to : {0x10000u, 0x10001u, 0x1000fu, 0x10008u})
    for (std::uint64_t from : {0x9000000u, 0x9000001u, 0x9000004u, 0x900000fu})
      for (std::uint64_t bytes : {1u, 15u, 16u, 17u, 16384u, 16385u, 100001u}) {
        auto plan = hooks::planCopy(to, from, bytes);
        REQUIRE(plan);
        checkCovers(*plan, to, from, bytes);
        auto fill = hooks::planFill(to, bytes);
        REQUIRE(fill);
        checkCovers(*fill, to, to, bytes);
      }
  CHECK(hooks::planCopy(0x10003, 0x20003, 1000)->unit == 16);
  CHECK(hooks::planCopy(0x10003, 0x20003, 1000)->head == 13);
  CHECK(hooks::planCopy(0x10000, 0x20004, 1000)->unit == 4);
  CHECK(hooks::planCopy(0x10000, 0x20002, 1000)->unit == 1);
}

TEST_CASE("overlapping ranges and what is too large have no plan") {
  constexpr std::uint64_t most = 16384 * megabyte;
  CHECK_FALSE(hooks::planCopy(0x10000, 0x10000, 16));
  CHECK_FALSE(hooks::planCopy(0x10000, 0x10010, 17));
  CHECK_FALSE(hooks::planCopy(0x10010, 0x10000, 17));
  CHECK(hooks::planCopy(0x10010, 0x10000, 16));
  CHECK_FALSE(hooks::planCopy(0x10010, 0x20000, 0));
  CHECK(hooks::planCopy(0, most, most)->blocks == 1 << 20);
  CHECK_FALSE(hooks::planCopy(0, most + 16, most + 1));
  CHECK_FALSE(hooks::planCopy(0, 0x40000004, 64 * megabyte + 1));
  CHECK_FALSE(hooks::planCopy(0, 0x40000001, 2 * megabyte));
  CHECK_FALSE(hooks::planFill(0x10000, 0));
  CHECK(hooks::planFill(0x10000, most)->blocks == 1 << 20);
  CHECK_FALSE(hooks::planFill(0x10000, most + 1));
}

TEST_CASE("a copy is sent while the launch ahead of it runs, and is no launch of the program") {
  if (hooks::ownBundle().empty())
    return; // the build had no LLVM
  Copying c;
  c.gated = true;
  CHECK(c.launch(c.stream, &c.cell, 1) == cudaSuccess);
  c.gate.arrived();
  CHECK(c.copy(c.to(), c.from(), megabyte) == cudaSuccess);
  CHECK(eventually([&] { return c.hooks.totals().physical == 2; }));
  c.gated = false;
  c.gate.open(1);
  CHECK(c.synchronize(c.stream) == cudaSuccess);
  CHECK(std::memcmp(c.to(), c.from(), megabyte) == 0);
  CHECK(c.to()[megabyte] == std::byte{2});
  hooks::Totals totals = c.hooks.totals();
  CHECK(totals.copiesByKernels == 1);
  CHECK(totals.throughVariants == 1);
  CHECK(totals.byKind[static_cast<std::size_t>(Kind::Guard)] == 1);
  CHECK(totals.nonPreemptible == 0);
}

TEST_CASE("what is not known to lie apart in the device's memory is left to CUDA") {
  if (hooks::ownBundle().empty())
    return;
  Copying c;
  auto by = [&](const auto &make) { return c.byKernels(make); };
  CHECK(by([&] { return c.copy(c.to(), c.from(), megabyte); }) == 1);
  CHECK(by([&] { return c.copy(c.to(), c.from(), megabyte, cudaMemcpyDefault); }) == 1);
  CHECK(by([&] { return c.hooks.copies().fillAsync(c.cuda.api(), c.to(), 3, 64, c.stream); }) == 1);
  CHECK(by([&] { return c.copy(c.from() + 16, c.from(), megabyte); }) == 0);
  CHECK(by([&] { return c.copy(c.to(), c.from(), 0); }) == 0);
}

TEST_CASE("a copy between the device's memory and pinned memory is by a kernel, up to a size") {
  if (hooks::ownBundle().empty())
    return;
  Copying c;
  auto by = [&](const auto &make) { return c.byKernels(make); };
  std::vector<std::byte> pinned(megabyte + 1, std::byte{5});
  std::byte *host = pinned.data();
  c.cuda.pin(host);
  // Its end is not pinned.
  CHECK(by([&] { return c.copy(c.to(), host, megabyte, cudaMemcpyHostToDevice); }) == 0);
  for (std::size_t each : {15u, 1u << 20, (1u << 20) - 1})
    c.cuda.pin(host + each);
  CHECK(by([&] { return c.copy(c.to(), host, 16, cudaMemcpyHostToDevice); }) == 1);
  CHECK(c.to()[15] == std::byte{5});
  CHECK(by([&] { return c.copy(host, c.from(), megabyte, cudaMemcpyDefault); }) == 1);
  CHECK(pinned[megabyte - 1] == std::byte{1});
  CHECK(pinned[megabyte] == std::byte{5});
  CHECK(by([&] { return c.copy(c.to(), host, 16, cudaMemcpyDeviceToDevice); }) == 0);
  // Which fails.
  auto none = static_cast<cudaMemcpyKind>(9);
  CHECK_FALSE(c.hooks.served().engine()->ownKernels()->copy(c.to(), host, 16, none));
  CHECK_FALSE(c.hooks.served().engine()->ownKernels()->copy(c.to(), c.from(), 16, none));
  CHECK(by([&] { return c.copy(c.to(), host, megabyte + 1, cudaMemcpyHostToDevice); }) == 0);
}

TEST_CASE("in an idle queue, kernels make what the driver makes with kernels, and CUDA the rest") {
  if (hooks::ownBundle().empty())
    return;
  Copying c;
  std::vector<std::byte> pinned(megabyte, std::byte{5});
  c.cuda.pin(pinned.data());
  c.cuda.pin(pinned.data() + megabyte - 1);
  auto by = [&](const auto &make) {
    REQUIRE(c.synchronize(c.stream) == cudaSuccess);
    std::uint64_t before = c.hooks.totals().copiesByKernels;
    CHECK(make() == cudaSuccess);
    CHECK(c.synchronize(c.stream) == cudaSuccess);
    return c.hooks.totals().copiesByKernels - before;
  };
  const hooks::CudaApi &api = c.cuda.api();
  CHECK(c.launch(c.stream, &c.cell, 1) == cudaSuccess);
  CHECK(by([&] { return c.hooks.copies().fillAsync(api, c.to(), 3, 64, c.stream); }) == 1);
  auto none = [] { return cudaErrorUnknown; };
  CHECK(by([&] { return c.hooks.copies().fill(api, c.to(), 3, 64, nullptr, none); }) == 1);
  CHECK(by([&] { return c.copy(c.to(), c.from(), megabyte); }) == 1);
  auto copied = [&](std::byte *to, cudaMemcpyKind kind) {
    return c.hooks.copies().copy(api, to, c.from(), 64, kind, nullptr, none);
  };
  CHECK(by([&] { return copied(c.to(), cudaMemcpyDeviceToDevice); }) == 1);
  CHECK(by([&] { return copied(c.to(), cudaMemcpyDefault); }) == 1);
  CHECK(copied(pinned.data(), cudaMemcpyDefault) == cudaErrorUnknown);
  for (auto kind : {cudaMemcpyHostToDevice, cudaMemcpyDefault})
    CHECK(by([&] { return c.copy(c.to(), pinned.data(), megabyte, kind); }) == 0);
  CHECK(c.to()[0] == std::byte{5});
  CHECK(by([&] { return c.copy(c.to(), c.from(), megabyte, cudaMemcpyDefault); }) == 1);
  CHECK(c.to()[0] == std::byte{1});
}

TEST_CASE("a thread that has no context yet has its copies made by kernels") {
  if (hooks::ownBundle().empty())
    return;
  Copying c;
  auto copy = [&] { return c.copy(c.to(), c.from(), megabyte); };
  std::thread([&] {
    CHECK_FALSE(FakeCuda::hasContext());
    CHECK(c.byKernels(copy) == 1);
  }).join();
  // The range covers two adjacent allocations.
  c.cuda.allocations = {{c.memory, 2 * megabyte + 16}, {c.to() + 16, 2 * megabyte - 16}};
  CHECK(c.byKernels(copy) == 0);
}

TEST_CASE("they are not used where that is switched off, and where no kind of theirs may be used") {
  hooks::Settings settings = Copying::bestEffort();
  SUBCASE("switched off") { settings.copyKernels = false; }
  SUBCASE("no kind") { settings.variants.kinds = {}; }
  Copying c(settings);
  CHECK(c.byKernels([&] { return c.copy(c.to(), c.from(), megabyte); }) == 0);
  CHECK(std::memcmp(c.to(), c.from(), megabyte) == 0);
}

TEST_CASE("nothing is loaded while a capture is open") {
  if (hooks::ownBundle().empty())
    return;
  Copying c;
  auto copy = [&] { return c.copy(c.to(), c.from(), megabyte); };
  auto same = [] { return cudaSuccess; };
  CHECK(c.hooks.streams().beginCapture(c.cuda.api(), nullptr, same) == cudaSuccess);
  CHECK(c.byKernels(copy) == 0);
  CHECK(c.hooks.streams().endCapture(same) == cudaSuccess);
  CHECK(c.byKernels(copy) == 1);
}

TEST_CASE("a device that does not take them has CUDA copy") {
  Copying c;
  c.cuda.kernels.erase("tally_fill$tally_guard");
  CHECK(c.byKernels([&] { return c.copy(c.to(), c.from(), megabyte); }) == 0);
  CHECK(std::memcmp(c.to(), c.from(), megabyte) == 0);
  CHECK(c.hooks.lastError(c.cuda.api(), true) == cudaSuccess);
}
