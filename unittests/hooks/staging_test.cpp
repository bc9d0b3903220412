// Copies from and to pageable memory through the hooks' own memory: the ring, and the waits of the
// calls.
#include "copying.h"

#include "engine/staging.h"
#include "work/own_bundle.h"

#include <chrono>
#include <deque>
#include <random>
#include <thread>

using namespace tally;
using namespace tally::test;
using namespace std::chrono_literals;

namespace {

struct Staged : Copying {
  /// Makes calls that must return while a kernel is held; returns how many copies kernels made.
  template <class Call> std::uint64_t withoutWait(cudaStream_t on, const Call &call) {
    std::uint64_t before = hooks.totals().copiesByKernels;
    hold(on);
    call();
    gate.open(1);
    CHECK(synchronize(on) == cudaSuccess);
    return hooks.totals().copiesByKernels - before;
  }
  /// Makes a call that must return only after the kernel, which is held for a while.
  template <class Call>
  std::uint64_t behindHeld(cudaStream_t on, const Call &call,
                           std::chrono::milliseconds held = 10ms) {
    std::uint64_t before = hooks.totals().copiesByKernels;
    hold(on);
    std::atomic<bool> isOpen{false};
    std::thread opener([&] {
      std::this_thread::sleep_for(held);
      isOpen = true;
      gate.open(1);
    });
    CHECK(call() == cudaSuccess);
    CHECK(isOpen);
    opener.join();
    CHECK(synchronize(on) == cudaSuccess);
    return hooks.totals().copiesByKernels - before;
  }
  cudaError_t copyNow(void *target, const void *source, std::size_t bytes, cudaMemcpyKind kind) {
    return hooks.copies().copy(cuda.api(), target, source, bytes, kind, nullptr, [&] {
      std::memcpy(target, source, bytes);
      return cudaSuccess;
    });
  }
  std::vector<std::byte> host = std::vector<std::byte>(4 * megabyte, std::byte{7});
};

} // namespace

TEST_CASE("pieces of the ring that are not over stay apart") {
  constexpr std::size_t bytes = 1000;
  std::minstd_rand random(39);
  hooks::StagingRing ring(bytes);
  struct Live {
    std::size_t begin, end;
    std::uint64_t ticket;
  };
  std::deque<Live> live;
  std::uint64_t over = 0, last = 0;
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    if (random() % 3 == 0 && over < last)
      over += 1 + random() % std::min<std::uint64_t>(last - over, 3);
    while (!live.empty() && live.front().ticket <= over)
      live.pop_front();
    std::size_t size = 1 + random() % 300;
    auto piece = ring.take(size, [&](std::uint64_t ticket) { return ticket <= over; });
    if (!piece) {
      ++refused;
      CHECK(!live.empty());
      continue;
    }
    CHECK(piece->begin + size <= bytes);
    for (const Live &each : live)
      CHECK((piece->begin + size <= each.begin || piece->begin >= each.end));
    live.push_back({piece->begin, piece->begin + size, ++last});
    ring.keepUntil(*piece, last);
  }
  CHECK(refused > 100);
  CHECK(refused < 15000);
  CHECK_FALSE(ring.take(bytes + 1, [](std::uint64_t) { return true; }));
}

TEST_CASE("a copy from pageable memory has what was there at the call, and waits for nothing") {
  if (hooks::ownBundle().empty())
    return; // the build had no LLVM
  Staged s;
  for (cudaMemcpyKind kind : {cudaMemcpyHostToDevice, cudaMemcpyDefault}) {
    s.host[0] = s.host[99999] = std::byte{7};
    CHECK(s.withoutWait(s.stream, [&] {
      CHECK(s.copy(s.to() + 3, s.host.data(), 100000, kind) == cudaSuccess);
      s.host[0] = s.host[99999] = std::byte{8};
    }) == 1);
    CHECK(s.to()[2] == std::byte{2});
    CHECK(s.to()[3] == std::byte{7});
    CHECK(s.to()[100002] == std::byte{7});
    CHECK(s.to()[100003] == std::byte{2});
  }
}

TEST_CASE("a copy to pageable memory is there when the call returns") {
  if (hooks::ownBundle().empty())
    return;
  Staged s;
  auto copy = [&] { return s.copy(s.host.data(), s.from(), 5000, cudaMemcpyDeviceToHost); };
  CHECK(s.behindHeld(s.stream, [&] {
    cudaError_t status = copy();
    CHECK(s.host[0] == std::byte{1});
    CHECK(s.host[4999] == std::byte{1});
    CHECK(s.host[5000] == std::byte{7});
    return status;
  }) == 1);
}

TEST_CASE("copies without a stream end with the call; fills of the device's memory do not wait") {
  if (hooks::ownBundle().empty())
    return;
  Staged s;
  CHECK(s.behindHeld(nullptr, [&] {
    cudaError_t status = s.copyNow(s.to(), s.host.data(), 64, cudaMemcpyHostToDevice);
    CHECK(s.to()[0] == std::byte{7});
    return status;
  }) == 1);
  CHECK(s.behindHeld(nullptr, [&] {
    cudaError_t status = s.copyNow(s.host.data(), s.from(), 64, cudaMemcpyDeviceToHost);
    CHECK(s.host[63] == std::byte{1});
    return status;
  }) == 1);
  bool isMade = false;
  CHECK(s.withoutWait(nullptr, [&] {
    CHECK(s.hooks.copies().fill(s.cuda.api(), s.to(), 3, 64, nullptr, [&] {
      isMade = true;
      return cudaSuccess;
    }) == cudaSuccess);
  }) == 1);
  CHECK(!isMade);
}

TEST_CASE("what is too large, and what the ring has no room for, is CUDA's") {
  if (hooks::ownBundle().empty())
    return;
  Staged s;
  CHECK(s.behindHeld(s.stream, [&] {
    return s.copy(s.to(), s.host.data(), megabyte + 1, cudaMemcpyHostToDevice);
  }) == 0);
  CHECK(s.to()[megabyte] == std::byte{7});
  // Seven copies and the space that aligns the eighth one fill the ring.
  auto all = [&] {
    cudaError_t status = cudaSuccess;
    for (int i = 0; i < 8; ++i)
      status = s.copy(s.to(), s.host.data(), megabyte, cudaMemcpyHostToDevice);
    return status;
  };
  CHECK(s.behindHeld(s.stream, all, 500ms) == 7);
  CHECK(s.withoutWait(s.stream, [&] {
    CHECK(s.copy(s.to(), s.host.data(), megabyte, cudaMemcpyHostToDevice) == cudaSuccess);
  }) == 1);
}
