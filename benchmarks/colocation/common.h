// Helpers for CUDA and for the clock, shared by the programs that share a GPU.
#ifndef TALLY_BENCHMARKS_COLOCATION_COMMON_H
#define TALLY_BENCHMARKS_COLOCATION_COMMON_H

#include "open_loop.h"

#include <cuda_runtime.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace colocation {

inline void check(cudaError_t status, const char *what) {
  if (status == cudaSuccess)
    return;
  std::fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what,
               cudaGetErrorString(status));
  std::exit(1);
}

struct Priorities {
  int low = 0, high = 0;
};

inline Priorities priorities() {
  Priorities range;
  check(cudaDeviceGetStreamPriorityRange(&range.low, &range.high),
        "cudaDeviceGetStreamPriorityRange");
  return range;
}

inline cudaStream_t makeStream(int priority) {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority),
        "cudaStreamCreateWithPriority");
  return stream;
}

/// Kernels a second: `kernelsPerStep` over the mean time between ends of steps within [begin, end];
/// 0 if fewer than two steps ended there.
inline double kernelsPerSecond(const std::vector<Clock::time_point> &ends, double kernelsPerStep,
                               Clock::time_point begin, Clock::time_point end) {
  std::vector<Clock::time_point> within;
  for (Clock::time_point each : ends)
    if (each >= begin && each <= end)
      within.push_back(each);
  if (within.size() < 2)
    return 0;
  return static_cast<double>(within.size() - 1) * kernelsPerStep /
         std::chrono::duration<double>(within.back() - within.front()).count();
}

} // namespace colocation

#endif
