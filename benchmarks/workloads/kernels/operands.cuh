// Operands of products: where the piece of 8 halves lies that has given indices. An operand is not
// turned if its pieces run along k, turned if they run along m or n.
//
//   line(i)            what is known of the place i along m or n (of a turned one: where pieces
//   begin) step(k)            what is known of the place k piece(line, step)  the address; `inside`
//   becomes false where zeros stand for it choose(index)      takes the product of this index in a
//   batch
#ifndef TALLY_BENCHMARKS_WORKLOADS_KERNELS_OPERANDS_CUH
#define TALLY_BENCHMARKS_WORKLOADS_KERNELS_OPERANDS_CUH

#include <cuda_fp16.h>

namespace workloads::product {

/// A matrix in memory: `extent` (m or n) lines of k halves, or k lines of `extent` where it is
/// turned; lines are `stride` halves apart. Product i of a batch is (i / perOuter) * outer +
/// (i % perOuter) * inner halves further on.
template <bool isTurned> struct Matrix {
  static constexpr bool turned = isTurned;
  const __half *data = nullptr;
  int extent = 0, stride = 0;
  long long outer = 0, inner = 0;
  int perOuter = 1;

  struct Line {
    const __half *from;
    bool inside;
  };
  using Step = int;
  __device__ __forceinline__ void choose(int index) {
    data += index / perOuter * outer + index % perOuter * inner;
  }
  __device__ __forceinline__ Line line(int i) const {
    bool inside = i < extent;
    return {data + (inside ? i * static_cast<long long>(turned ? 1 : stride) : 0), inside};
  }
  __device__ __forceinline__ Step step(int k) const { return k; }
  __device__ __forceinline__ const __half *piece(const Line &line, Step k, bool &inside) const {
    inside = inside && line.inside;
    return inside ? line.from + k * static_cast<long long>(turned ? stride : 1) : data;
  }
};
using Plain = Matrix<false>;
using Turned = Matrix<true>;

} // namespace workloads::product

#endif
