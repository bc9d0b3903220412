// Inputs that a kernel can make anew wherever it needs them, and results that are counted where
// they lie.
#ifndef TALLY_BENCHMARKS_COLOCATION_CHECKING_CUH
#define TALLY_BENCHMARKS_COLOCATION_CHECKING_CUH

#include "training.cuh"

namespace colocation {

/// A word that looks like chance, the same for one index.
__device__ inline unsigned wordAt(unsigned index) { return (index ^ index >> 15) * 2654435761u; }

/// All of `all` results but those that are right: `countRight(stream, count)` launches a kernel
/// that adds their number to *count, on a stream of high priority.
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
