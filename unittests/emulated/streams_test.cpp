// Order between streams. A host function holds a stream up for as long as a test needs.
#include "program.h"

#include <atomic>
#include <chrono>
#include <thread>

namespace tally::hooks {

namespace {

/// Holds the stream up until open(). Waiting host functions may outlive the gate.
class Gate {
public:
  explicit Gate(cudaStream_t stream) {
    CHECK(cuda().cudaLaunchHostFunc(stream, &Gate::wait, new Shared(isOpen)) == cudaSuccess);
  }
  void open() { *isOpen = true; }

private:
  using Shared = std::shared_ptr<std::atomic<bool>>;
  static void wait(void *data) {
    std::unique_ptr<Shared> held(static_cast<Shared *>(data));
    while (!**held)
      std::this_thread::yield();
  }
  Shared isOpen = std::make_shared<std::atomic<bool>>(false);
};

struct Streams {
  cudaStream_t blocking = nullptr, other = nullptr, nonBlocking = nullptr;
  Streams() {
    REQUIRE(cuda().cudaStreamCreate(&blocking) == cudaSuccess);
    REQUIRE(cuda().cudaStreamCreate(&other) == cudaSuccess);
    REQUIRE(cuda().cudaStreamCreateWithFlags(&nonBlocking, cudaStreamNonBlocking) == cudaSuccess);
  }
  ~Streams() {
    for (cudaStream_t each : {blocking, other, nonBlocking})
      CHECK(cuda().cudaStreamDestroy(each) == cudaSuccess);
  }
};

/// Returns whether the stream stays busy for a while.
bool staysBusy(cudaStream_t stream) {
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  bool busy = cuda().cudaStreamQuery(stream) == cudaErrorNotReady;
  (void)cuda().cudaGetLastError();
  return busy;
}

} // namespace

TEST_CASE("the legacy default stream and blocking streams wait for each other") {
  Streams streams;
  Ints out(1);
  SUBCASE("it waits for a blocking stream") {
    Gate gate(streams.blocking);
    CHECK(cuda().cudaMemsetAsync(out.device, 1, 4, nullptr) == cudaSuccess);
    CHECK(staysBusy(nullptr));
    gate.open();
    CHECK(cuda().cudaStreamSynchronize(nullptr) == cudaSuccess);
    CHECK(cuda().cudaStreamQuery(streams.blocking) == cudaSuccess);
  }
  SUBCASE("a blocking stream waits for it, a non-blocking one does not") {
    Gate gate(nullptr);
    CHECK(cuda().cudaMemsetAsync(out.device, 1, 4, streams.blocking) == cudaSuccess);
    CHECK(cuda().cudaMemsetAsync(out.device, 1, 4, streams.nonBlocking) == cudaSuccess);
    CHECK(cuda().cudaMemsetAsync(out.device, 1, 4, cudaStreamPerThread) == cudaSuccess);
    CHECK(cuda().cudaStreamSynchronize(streams.nonBlocking) == cudaSuccess);
    CHECK(staysBusy(streams.blocking));
    CHECK(staysBusy(cudaStreamPerThread));
    gate.open();
    CHECK(cuda().cudaStreamSynchronize(streams.blocking) == cudaSuccess);
    CHECK(cuda().cudaStreamSynchronize(cudaStreamPerThread) == cudaSuccess);
  }
  SUBCASE("it does not wait for a non-blocking stream, nor do streams for one another") {
    Gate gate(streams.nonBlocking);
    CHECK(cuda().cudaMemsetAsync(out.device, 1, 4, nullptr) == cudaSuccess);
    CHECK(cuda().cudaMemsetAsync(out.device, 1, 4, streams.other) == cudaSuccess);
    CHECK(cuda().cudaStreamSynchronize(nullptr) == cudaSuccess);
    CHECK(cuda().cudaStreamSynchronize(streams.other) == cudaSuccess);
    CHECK(staysBusy(streams.nonBlocking));
    gate.open();
  }
}

TEST_CASE("the legacy stream waits for a blocking stream that another thread is destroying") {
  cudaStream_t stream = nullptr;
  REQUIRE(cuda().cudaStreamCreate(&stream) == cudaSuccess);
  Ints out(1);
  Gate gate(stream);
  std::thread destroyer([&] { CHECK(cuda().cudaStreamDestroy(stream) == cudaSuccess); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(cuda().cudaMemsetAsync(out.device, 1, 4, nullptr) == cudaSuccess);
  CHECK(staysBusy(nullptr));
  gate.open();
  destroyer.join();
  CHECK(cuda().cudaStreamSynchronize(nullptr) == cudaSuccess);
}

TEST_CASE("events: order between streams, queries and times") {
  Streams streams;
  cudaEvent_t event = nullptr, later = nullptr, untimed = nullptr;
  REQUIRE(cuda().cudaEventCreate(&event) == cudaSuccess);
  REQUIRE(cuda().cudaEventCreate(&later) == cudaSuccess);
  REQUIRE(cuda().cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming) == cudaSuccess);
  float milliseconds = -1;
  CHECK(cuda().cudaEventQuery(event) == cudaSuccess); // never recorded
  CHECK(cuda().cudaEventElapsedTime(&milliseconds, event, later) == cudaErrorInvalidResourceHandle);
  Ints out(1);
  {
    Gate gate(streams.nonBlocking);
    CHECK(cuda().cudaEventRecord(event, streams.nonBlocking) == cudaSuccess);
    CHECK(cuda().cudaStreamWaitEvent(streams.other, event, 0) == cudaSuccess);
    CHECK(cuda().cudaMemsetAsync(out.device, 1, 4, streams.other) == cudaSuccess);
    CHECK(cuda().cudaEventRecord(later, streams.other) == cudaSuccess);
    CHECK(staysBusy(streams.other));
    CHECK(cuda().cudaEventQuery(event) == cudaErrorNotReady);
    CHECK(cuda().cudaEventElapsedTime(&milliseconds, event, later) == cudaErrorNotReady);
    gate.open();
    CHECK(cuda().cudaEventSynchronize(later) == cudaSuccess);
  }
  CHECK(cuda().cudaEventQuery(event) == cudaSuccess);
  CHECK(cuda().cudaEventElapsedTime(&milliseconds, event, later) == cudaSuccess);
  CHECK(milliseconds >= 0);
  CHECK(milliseconds < 60000);
  CHECK(cuda().cudaEventRecord(untimed, nullptr) == cudaSuccess);
  CHECK(cuda().cudaEventSynchronize(untimed) == cudaSuccess);
  CHECK(cuda().cudaEventElapsedTime(&milliseconds, untimed, untimed) ==
        cudaErrorInvalidResourceHandle);
  for (cudaEvent_t each : {event, later, untimed})
    CHECK(cuda().cudaEventDestroy(each) == cudaSuccess);
  (void)cuda().cudaGetLastError();
}

TEST_CASE("a function of the host that waits holds up no other stream") {
  Program program({{ptxHeader + R"(
.visible .entry wait(.param .u64 flag) {
  .reg .b64 %p; .reg .b32 %v; .reg .pred %q;
  ld.param.u64 %p, [flag];
again:
  ld.relaxed.sys.global.u32 %v, [%p];
  setp.eq.u32 %q, %v, 0;
  @%q bra again;
  ret;
})",
                    90}});
  Streams streams;
  int *flag = nullptr;
  REQUIRE(cuda().cudaMallocHost(reinterpret_cast<void **>(&flag), 4) == cudaSuccess);
  cudaEvent_t event = nullptr;
  REQUIRE(cuda().cudaEventCreate(&event) == cudaSuccess);
  Ints out(1);
  Gate gate(streams.nonBlocking);
  CHECK(launch(program.kernel("wait"), 1, 1, 0, streams.blocking, flag) == cudaSuccess);
  CHECK(cuda().cudaEventRecord(event, streams.blocking) == cudaSuccess);
  CHECK(cuda().cudaStreamWaitEvent(streams.other, event, 0) == cudaSuccess);
  CHECK(cuda().cudaMemsetAsync(out.device, 1, 4, streams.other) == cudaSuccess);
  CHECK(staysBusy(streams.other));
  __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
  CHECK(cuda().cudaStreamSynchronize(streams.other) == cudaSuccess);
  gate.open();
  CHECK(cuda().cudaEventDestroy(event) == cudaSuccess);
  CHECK(cuda().cudaFreeHost(flag) == cudaSuccess);
}

TEST_CASE("a later record of an event does not move those who wait already") {
  Streams streams;
  cudaEvent_t event = nullptr;
  REQUIRE(cuda().cudaEventCreate(&event) == cudaSuccess);
  Ints out(1);
  CHECK(cuda().cudaEventRecord(event, streams.blocking) == cudaSuccess);
  CHECK(cuda().cudaStreamWaitEvent(streams.other, event, 0) == cudaSuccess);
  Gate gate(streams.nonBlocking);
  CHECK(cuda().cudaEventRecord(event, streams.nonBlocking) == cudaSuccess);
  CHECK(cuda().cudaMemsetAsync(out.device, 1, 4, streams.other) == cudaSuccess);
  CHECK(cuda().cudaStreamSynchronize(streams.other) == cudaSuccess);
  gate.open();
  CHECK(cuda().cudaEventSynchronize(event) == cudaSuccess);
  CHECK(cuda().cudaEventDestroy(event) == cudaSuccess);
}

TEST_CASE("pageable memory is read at the call, pinned memory in stream order") {
  Streams streams;
  Ints out(2);
  int pageable = 1;
  int *pinned = nullptr;
  REQUIRE(cuda().cudaMallocHost(reinterpret_cast<void **>(&pinned), 4) == cudaSuccess);
  *pinned = 1;
  {
    Gate gate(streams.nonBlocking);
    CHECK(cuda().cudaMemcpyAsync(out.device, &pageable, 4, cudaMemcpyHostToDevice,
                                 streams.nonBlocking) == cudaSuccess);
    CHECK(cuda().cudaMemcpyAsync(out.device + 1, pinned, 4, cudaMemcpyHostToDevice,
                                 streams.nonBlocking) == cudaSuccess);
    pageable = *pinned = 2;
    gate.open();
    CHECK(cuda().cudaStreamSynchronize(streams.nonBlocking) == cudaSuccess);
  }
  CHECK(out.values() == std::vector<int>{1, 2});
  CHECK(cuda().cudaFreeHost(pinned) == cudaSuccess);
}

TEST_CASE("what a stream is") {
  cudaStream_t stream = nullptr;
  int least = 1, greatest = 1, priority = 1;
  unsigned flags = 9;
  CHECK(cuda().cudaDeviceGetStreamPriorityRange(&least, &greatest) == cudaSuccess);
  CHECK(least > greatest);
  REQUIRE(cuda().cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest - 3) ==
          cudaSuccess);
  CHECK(cuda().cudaStreamGetPriority(stream, &priority) == cudaSuccess);
  CHECK(cuda().cudaStreamGetFlags(stream, &flags) == cudaSuccess);
  CHECK(priority == greatest);
  CHECK(flags == cudaStreamNonBlocking);
  CHECK(cuda().cudaStreamDestroy(stream) == cudaSuccess);
  CHECK(cuda().cudaStreamQuery(stream) == cudaErrorInvalidResourceHandle);
  (void)cuda().cudaGetLastError();
}

} // namespace tally::hooks
