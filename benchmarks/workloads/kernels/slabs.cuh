// Slabs of a product's operands in shared memory: cp.async copies them there, and warps read them
// by ldmatrix.
//
// A row is 64 or 128 bytes of pieces of 8 halves. Piece p of row r lies at the place of piece p ^
// (some bits of r). So the 8 pieces of one copy lie on different banks, and so do the 8 rows of a
// matrix that ldmatrix reads, and no padding is needed.
#ifndef TALLY_BENCHMARKS_WORKLOADS_KERNELS_SLABS_CUH
#define TALLY_BENCHMARKS_WORKLOADS_KERNELS_SLABS_CUH

#include <cuda_fp16.h>

namespace workloads::product {

__device__ __forceinline__ unsigned sharedAddress(const void *pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ void copyPiece(unsigned to, const __half *from, bool inside) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(inside ? 16 : 0)
               : "memory");
}

/// The slabs of one operand: `extent` of m or n by `depth` of k. Rows run along k; if the operand
/// is turned, they run along m or n, in successive panels of `columns`.
template <class Operand, int extent, int slabDepth, int threads> struct Slabs {
  static constexpr bool turned = Operand::turned;
  static constexpr int depth = slabDepth;
  static constexpr int columns = turned ? (extent % 64 == 0 ? 64 : 32) : depth;
  static constexpr int bytes = extent * depth * static_cast<int>(sizeof(__half));
  static constexpr int perRow = columns / 8, rowsBetween = threads / perRow;
  static constexpr int perThread = extent * depth / 8 / threads;
  /// Number of a turned operand's pieces that differ in k; the others differ in their panel.
  static constexpr int stepCount = turned && rowsBetween < depth ? depth / rowsBetween : 1;
  static constexpr int lineCount = perThread / stepCount;
  static_assert(columns == 32 || columns == 64, "the banks of rows are thought out for these");
  static_assert(extent % columns == 0 || !turned, "whole panels");
  static_assert(perThread * threads * 8 == extent * depth && rowsBetween % 8 == 0 &&
                    (!turned || rowsBetween % depth == 0 || depth % rowsBetween == 0),
                "pieces for every thread");

  /// Offset of a piece in bytes.
  static __device__ __forceinline__ int place(int row, int piece) {
    return row * columns * 2 + ((piece ^ (columns == 64 ? row & 7 : row >> 1 & 3)) * 16);
  }

  typename Operand::Line lines[lineCount];

  __device__ __forceinline__ Slabs(const Operand &operand, int first) {
    int row = threadIdx.x / perRow, column = threadIdx.x % perRow * 8;
#pragma unroll
    for (int i = 0; i < lineCount; ++i)
      lines[i] = operand.line(
          first + (turned ? (row + i * stepCount * rowsBetween) / depth * columns + column
                          : row + i * rowsBetween));
  }
  /// Fills the part past `kEnd` with 0, even whole slabs.
  __device__ __forceinline__ void fetch(const Operand &operand, unsigned to, int k0,
                                        int kEnd) const {
    int row = threadIdx.x / perRow, piece = threadIdx.x % perRow;
    to += place(row, piece);
#pragma unroll
    for (int s = 0; s < stepCount; ++s) {
      int k = k0 + (turned ? row % depth + s * rowsBetween : piece * 8);
      typename Operand::Step step = operand.step(k);
#pragma unroll
      for (int i = 0; i < lineCount; ++i) {
        bool inside = k < kEnd;
        const __half *from = operand.piece(lines[i], step, inside);
        copyPiece(to + (i * stepCount + s) * rowsBetween * columns * 2, from, inside);
      }
    }
  }
};

/// A warp's part of a slab, `warpExtent` along m or n, by 16 of k, in the registers of mma.sync
/// m16n8k16: for the left operand, or for two neighbours of the right one.
template <class Slabs, int warpExtent, bool isLeft> struct Fragments {
  static constexpr int count = warpExtent / 16;

  unsigned offsets[Slabs::turned ? count : Slabs::depth / 16];

  __device__ __forceinline__ explicit Fragments(int begin) {
    int lane = threadIdx.x % 32;
    // Lanes 0 to 7 hold the addresses of the rows of the first of four 8x8 matrices, and so on.
    int alongExtent = (isLeft ? lane / 8 % 2 : lane / 16) * 8;
    int alongK = (isLeft ? lane / 16 : lane / 8 % 2) * 8;
    if constexpr (Slabs::turned) {
#pragma unroll
      for (int i = 0; i < count; ++i) {
        int column = begin + i * 16 + alongExtent;
        offsets[i] = Slabs::place(column / Slabs::columns * Slabs::depth + alongK + lane % 8,
                                  column % Slabs::columns / 8);
      }
    } else {
#pragma unroll
      for (int i = 0; i < Slabs::depth / 16; ++i)
        offsets[i] = Slabs::place(begin + alongExtent + lane % 8, i * 2 + alongK / 8);
    }
  }
  /// Loads the i-th 16 of the warp's part, of the k-th 16 of the slab at the shared address `from`.
  __device__ __forceinline__ void load(unsigned (&to)[4], unsigned from, int k, int i) const {
    unsigned at =
        from + offsets[Slabs::turned ? i : k] + (Slabs::turned ? k : i) * 16 * Slabs::columns * 2;
    if (Slabs::turned)
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                   : "r"(at)
                   : "memory");
    else
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                   : "r"(at)
                   : "memory");
  }
};

} // namespace workloads::product

#endif
