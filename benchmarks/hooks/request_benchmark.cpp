// The cost of a named request for the thread of a relinked program (tally/request.h): a begin and
// an end of the request, while no best-effort work waits.
//
//   TALLY_DEVICE=emulator TALLY_ARENA=/tmp/an-arena build/benchmarks/hooks/request_benchmark
//
// Without TALLY_DEVICE the program runs on a GPU. With TALLY_ARENA=off no engine or arena counts
// the request, except in "pairBesideEngine". A line is a pair of calls; "begin" and "end" are one
// call each, less the cost of the clock. benchmarks/hooks/requests.py measures requests while
// best-effort work waits.
#include "tally/request.h"

#include <benchmark/benchmark.h>

#include <cuda_runtime.h>

#include <chrono>
#include <cstdlib>
#include <ctime>

namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

/// A stream in a process that has joined the arena, if it joins one.
cudaStream_t stream() {
  static const cudaStream_t made = [] {
    cudaStream_t stream = nullptr;
    void *memory = nullptr;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    if (cudaMalloc(&memory, 4096) != cudaSuccess)
      std::exit(1);
    // A thread of its own joins the arena, behind the first work.
    for (int i = 0; i < 100; ++i) {
      cudaMemsetAsync(memory, 0, 4096, stream);
      cudaStreamSynchronize(stream);
      timespec nap{0, 2000000};
      nanosleep(&nap, nullptr);
    }
    return stream;
  }();
  return made;
}

double clockTakes() {
  auto begun = Clock::now();
  constexpr int looks = 100000;
  for (int i = 0; i < looks; ++i)
    benchmark::DoNotOptimize(Clock::now());
  return Seconds(Clock::now() - begun).count() / looks;
}

/// Measures one half of the pair by the clock, and leaves the other half out.
void half(benchmark::State &state, bool isBegin) {
  cudaStream_t on = stream();
  double clock = clockTakes();
  tally_request request = 0;
  for (auto each : state) {
    static_cast<void>(each);
    auto before = Clock::now();
    tally_request_begin(on, nullptr, &request);
    auto between = Clock::now();
    tally_request_end(request);
    auto after = Clock::now();
    state.SetIterationTime(Seconds(isBegin ? between - before : after - between).count() - clock);
  }
}

void pair(benchmark::State &state) {
  cudaStream_t on = stream();
  for (auto each : state) {
    static_cast<void>(each);
    tally::RequestScope request(on);
  }
}

void pairWithNameAndDeadline(benchmark::State &state) {
  cudaStream_t on = stream();
  for (auto each : state) {
    static_cast<void>(each);
    tally::RequestScope request(on, "decode", std::chrono::milliseconds(20));
  }
}

void pairInside(benchmark::State &state) {
  cudaStream_t on = stream();
  tally::RequestScope outer(on);
  for (auto each : state) {
    static_cast<void>(each);
    tally::RequestScope request(on);
  }
}

/// With an idle best-effort stream in the process; it runs last, since its engine stays.
void pairBesideEngine(benchmark::State &state) {
  static const cudaStream_t high = [] {
    int least = 0, greatest = 0;
    cudaStream_t streams[2] = {};
    cudaDeviceGetStreamPriorityRange(&least, &greatest);
    for (cudaStream_t &each : streams)
      cudaStreamCreateWithPriority(&each, cudaStreamNonBlocking,
                                   &each == streams ? least : greatest);
    return streams[1];
  }();
  if (tally::RequestScope(high).get() == 0)
    state.SkipWithError("the stream takes no requests");
  for (auto each : state) {
    static_cast<void>(each);
    tally::RequestScope request(high);
  }
}

} // namespace

BENCHMARK_CAPTURE(half, begin, true)->UseManualTime();
BENCHMARK_CAPTURE(half, end, false)->UseManualTime();
BENCHMARK(pair);
BENCHMARK(pairWithNameAndDeadline);
BENCHMARK(pairInside);
BENCHMARK(pairBesideEngine);

BENCHMARK_MAIN();
