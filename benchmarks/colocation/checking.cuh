// Inputs that a kernel can compute again wherever it needs them, and a count of wrong results on
// the device.
#ifndef TALLY_BENCHMARKS_COLOCATION_CHECKING_CUH
#define TALLY_BENCHMARKS_COLOCATION_CHECKING_CUH

#include "training.cuh"

namespace colocation {

/// A pseudo-random word; equal indices give equal words.
__device__ inline unsigned wordAt(unsigned index) { return (index ^ index >> 15) * 2654435761u; }

/// Returns the number of wrong results among `all`. `countRight(stream, count)` launches a kernel
/// on a stream of high priority that adds the number of right results to *count.
template <class CountRight> std::size_t wrongOf(std::size_t all, CountRight countRight) {
  Buffer<unsigned long long> count(1);
  cudaStream_t stream = makeStream(priorities().high);
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  countRight(stream, count.data());
  check(cudaGetLastError(), "launch");
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  check(cudaStreamDestroy(stream), "cudaStreamDestroy");
  return all - count.read().front();
}

} // namespace colocation

#endif
