// The memory that a best-effort process may allocate.
#include "fake_cuda.h"
#include "state/memory_account.h"

#include <doctest/doctest.h>

using namespace tally::hooks;

namespace {

thread_local int device = 0;
std::size_t freeBytes = 800;
int failedAllocations = 0;

CudaApi table() {
  CudaApi api;
  api.cudaGetDevice = [](int *now) {
    *now = device;
    return cudaSuccess;
  };
  api.cudaMemGetInfo = [](std::size_t *free, std::size_t *total) {
    *free = freeBytes;
    *total = 1000;
    return cudaSuccess;
  };
  api.cudaMalloc = [](void **, std::size_t) {
    ++failedAllocations;
    return cudaErrorMemoryAllocation;
  };
  api.cudaThreadExchangeStreamCaptureMode = [](cudaStreamCaptureMode *) { return cudaSuccess; };
  return api;
}

struct Program {
  explicit Program(MemoryAmount quota, MemoryAmount reserve = {})
      : account(settings(quota, reserve)) {}
  static Settings settings(MemoryAmount quota, MemoryAmount reserve) {
    Settings made;
    made.memory.quota = quota;
    made.memory.reserve = reserve;
    return made;
  }
  cudaError_t allocate(const void *handle, std::size_t bytes, cudaError_t outcome = cudaSuccess) {
    return account.allocate(
        api, bytes, [&] { return outcome; }, [&] { return MemoryAccount::Piece{handle, bytes}; });
  }
  cudaError_t release(const void *handle, cudaError_t outcome = cudaSuccess) {
    return account.release(handle, [&] { return outcome; });
  }
  std::size_t left() {
    std::size_t free = 0, total = 0;
    CHECK(account.info(api, &free, &total) == cudaSuccess);
    return free;
  }
  const CudaApi api = table();
  MemoryAccount account;
};

char pieces[4];

} // namespace

TEST_CASE("what fails takes nothing, what is not freed stays taken") {
  Program p({100, 0});
  CHECK(p.left() == 100);
  CHECK(p.allocate(&pieces[0], 60) == cudaSuccess);
  CHECK(p.left() == 40);
  CHECK(p.allocate(&pieces[1], 40, cudaErrorInvalidValue) == cudaErrorInvalidValue);
  CHECK(p.left() == 40);
  CHECK(p.release(&pieces[0], cudaErrorStreamCaptureUnsupported) ==
        cudaErrorStreamCaptureUnsupported);
  CHECK(p.left() == 40);
  CHECK(p.release(&pieces[0]) == cudaSuccess);
  CHECK(p.release(&pieces[0]) == cudaSuccess);
  CHECK(p.left() == 100);
  CHECK(p.account.statistics() == "memory: 0 bytes, 100 at most, of 100; 0 refused");
}

TEST_CASE("a refusal is an allocation that fails on the device") {
  Program p({100, 0});
  failedAllocations = 0;
  CHECK(p.allocate(&pieces[0], 101) == cudaErrorMemoryAllocation);
  CHECK(failedAllocations == 1);
  CHECK(p.allocate(&pieces[0], 100) == cudaSuccess);
  CHECK(p.allocate(&pieces[1], 1) == cudaErrorMemoryAllocation);
  CHECK(p.account.statistics() == "memory: 100 bytes, 100 at most, of 100; 2 refused");
  p.account.clear(0);
  CHECK(p.left() == 100);
}

TEST_CASE("percents are of the device's memory, each device has its own quota") {
  Program p({0, 30});
  CHECK(p.allocate(&pieces[0], 300) == cudaSuccess);
  device = 1;
  CHECK(p.allocate(&pieces[1], 300) == cudaSuccess);
  CHECK(p.allocate(&pieces[2], 1) == cudaErrorMemoryAllocation);
  device = 0;
  CHECK(p.release(&pieces[1]) == cudaSuccess); // the other device's
  CHECK(p.allocate(&pieces[2], 1) == cudaErrorMemoryAllocation);
}

TEST_CASE("the reserve is what the device has to have free afterwards") {
  Program p({}, {300, 0});
  freeBytes = 800;
  CHECK(p.left() == 500);
  CHECK(p.allocate(&pieces[0], 501) == cudaErrorMemoryAllocation);
  CHECK(p.allocate(&pieces[0], 500) == cudaSuccess);
  freeBytes = 200; // others took some
  CHECK(p.left() == 0);
  CHECK(p.allocate(&pieces[1], 1) == cudaErrorMemoryAllocation);
  freeBytes = 800;
}

TEST_CASE("what others are shown is what was allocated on the device, limits or not") {
  Settings settings;
  settings.bestEffort = true;
  settings.runAheadMicroseconds = 0;
  for (MemoryAmount quota : {MemoryAmount{}, MemoryAmount{100, 0}}) {
    settings.memory.quota = quota;
    MemoryAccount account(settings);
    const CudaApi api = table();
    auto allocate = [&](const void *handle, std::size_t bytes) {
      return account.allocate(
          api, bytes, [] { return cudaSuccess; },
          [&] { return MemoryAccount::Piece{handle, bytes}; });
    };
    device = 0;
    CHECK(allocate(&pieces[0], 60) == cudaSuccess);
    tally::runtime::MemoryStatus shown;
    account.showTo(0, [&](const tally::runtime::MemoryStatus &now) { shown = now; });
    CHECK(shown.used == 60);
    CHECK(shown.quota == quota.bytes);
    device = 1;
    CHECK(allocate(&pieces[1], 7) == cudaSuccess);
    CHECK(shown.used == 60);
    device = 0;
    CHECK((allocate(&pieces[2], 50) == cudaSuccess) == quota.isNone());
    CHECK(shown.used == (quota.isNone() ? 110 : 60));
    CHECK(shown.refusals == (quota.isNone() ? 0 : 1));
    CHECK(account.release(&pieces[0], [] { return cudaSuccess; }) == cudaSuccess);
    CHECK(shown.used == (quota.isNone() ? 50 : 0));
    CHECK(shown.peak == (quota.isNone() ? 110 : 60));
    account.clear(0);
    CHECK(shown.used == 0);
    account.showTo(-1, {});
    CHECK(allocate(&pieces[0], 1) == cudaSuccess);
    CHECK(shown.used == 0);
  }
}

TEST_CASE("without limits nothing is kept") {
  Program p({});
  CHECK(!p.account.isOn());
  CHECK(p.allocate(&pieces[0], 1 << 20) == cudaSuccess);
  CHECK(p.left() == 800);
  CHECK(p.account.statistics().empty());
}
