// Eight contiguous halves, which one instruction loads or stores.
#ifndef TALLY_BENCHMARKS_WORKLOADS_KERNELS_PIECE_CUH
#define TALLY_BENCHMARKS_WORKLOADS_KERNELS_PIECE_CUH

#include <cuda_fp16.h>

namespace workloads {

/// Copied as one value. A copy by members would be four loads and four stores of 4 bytes, and each
/// of a warp's four would touch all cache lines of the whole.
struct __align__(16) Piece {
  __half2 pairs[4];

  Piece() = default;
  __device__ __forceinline__ Piece(const Piece &other) { *this = other; }
  __device__ __forceinline__ Piece &operator=(const Piece &other) {
    reinterpret_cast<uint4 &>(pairs) = reinterpret_cast<const uint4 &>(other.pairs);
    return *this;
  }
};

} // namespace workloads

#endif
