// Matrix products on tensor cores, result = A B: f16 operands, sums in f32, mma.sync m16n8k16.
// Slabs of 32 along k come by cp.async into a ring of buffers, fragments by ldmatrix. Where a
// result has few tiles, blocks share k (split-K): each leaves its sums in memory, and the one that
// comes last adds all up in the order of k, so no result depends on who came when.
//
// Operands are types, so that a convolution is a product whose operand computes where its pieces
// lie (operands.cuh). Every piece is 8 halves, 16 bytes, in one place.
#ifndef TALLY_BENCHMARKS_WORKLOADS_KERNELS_PRODUCT_CUH
#define TALLY_BENCHMARKS_WORKLOADS_KERNELS_PRODUCT_CUH

#include <cuda_fp16.h>

namespace workloads::product {

constexpr int slab = 32, padding = 8; // halves; rows so padded fall on different banks

/// A block of warpsM x warpsN warps computes tileM x tileN results; `split`: blocks may share k.
template <int m, int n, int perM, int perN, int buffers, int resident, bool split> struct Tile {
  static constexpr int tileM = m, tileN = n, warpsM = perM, warpsN = perN, stages = buffers;
  static constexpr int blocksPerSm = resident, threads = 32 * perM * perN;
  static constexpr bool maySplit = split;
  static constexpr int warpM = m / perM, warpN = n / perN;
};
using Large = Tile<128, 128, 2, 2, 4, 2, false>;
using Small = Tile<64, 64, 2, 2, 4, 4, true>;

enum class Activation { none, gelu, relu, tanh };

/// Where sums go, by pieces of 8 columns, all of them aligned: x = scale * sum + bias + residual; x
/// is kept in `before`, f(x) in `out`. What is null is left out. `sums` instead: x in f32.
struct Result {
  __half *out = nullptr;
  float *sums = nullptr;
  const __half *bias = nullptr;     ///< one for each column
  const __half *residual = nullptr; ///< laid out as `out`
  __half *before = nullptr;         ///< likewise
  int stride = 0;                   ///< halves between rows
  float scale = 1;
  Activation activation = Activation::none;
  long long outer = 0, inner = 0; ///< of a batch's products, as in Matrix
  int perOuter = 1;
};

/// Of the split of k: for each tile `splits` times the block's sums, and a count of those there.
struct Splits {
  int count = 1;
  float *sums = nullptr;
  unsigned *arrived = nullptr;
};

__device__ __forceinline__ unsigned sharedAddress(const void *pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ void copyPiece(__half *to, const __half *from, bool inside) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(sharedAddress(to)), "l"(from),
               "r"(inside ? 16 : 0)
               : "memory");
}

/// The slabs of one operand: `extent` of m or n by 32 of k, stored [extent][k], or [k][extent]
/// where the operand is turned (its pieces run along m or n).
template <class Operand, int extent, int threads> struct Slabs {
  static constexpr bool turned = Operand::turned;
  static constexpr int rows = turned ? slab : extent, columns = turned ? extent : slab;
  static constexpr int stride = columns + padding, halves = rows * stride;
  static constexpr int perRow = columns / 8, perThread = rows * perRow / threads;
  static constexpr int rowsBetween = threads / perRow;
  static constexpr int lineCount = turned ? 1 : perThread;
  static_assert(threads % perRow == 0 && rows % rowsBetween == 0, "pieces for every thread");

  typename Operand::Line lines[lineCount];

  __device__ __forceinline__ Slabs(const Operand &operand, int first) {
    int row = threadIdx.x / perRow, column = threadIdx.x % perRow * 8;
#pragma unroll
    for (int i = 0; i < lineCount; ++i)
      lines[i] = operand.line(first + (turned ? column : row + i * rowsBetween));
  }
  __device__ __forceinline__ void fetch(const Operand &operand, __half *to, int k0,
                                        int kEnd) const {
    int row = threadIdx.x / perRow, column = threadIdx.x % perRow * 8;
    typename Operand::Step step = operand.step(k0 + (turned ? row : column));
#pragma unroll
    for (int i = 0; i < perThread; ++i) {
      int k = k0 + (turned ? row + i * rowsBetween : column);
      if (turned && i > 0)
        step = operand.step(k);
      bool inside = k < kEnd;
      const __half *from = operand.piece(lines[turned ? 0 : i], step, inside);
      copyPiece(to + (row + i * rowsBetween) * stride + column, from, inside);
    }
  }
};

template <bool turned>
__device__ __forceinline__ void loadFragment(unsigned (&registers)[4], const __half *from) {
  if (turned)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
                 : "r"(sharedAddress(from))
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
                 : "r"(sharedAddress(from))
                 : "memory");
}

__device__ __forceinline__ void multiplyAdd(float (&sum)[4], const unsigned (&a)[4], unsigned b0,
                                            unsigned b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
      "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <class Shape> using Sums = float[Shape::warpM / 16][Shape::warpN / 8][4];

/// The share of one slab in a warp's results.
template <class Shape, class SlabsA, class SlabsB>
__device__ __forceinline__ void multiplySlab(const __half *a, const __half *b, Sums<Shape> &sums) {
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int m0 = warp / Shape::warpsN * Shape::warpM, n0 = warp % Shape::warpsN * Shape::warpN;
#pragma unroll
  for (int k0 = 0; k0 < slab; k0 += 16) {
    unsigned left[Shape::warpM / 16][4], right[Shape::warpN / 16][4];
#pragma unroll
    for (int i = 0; i < Shape::warpM / 16; ++i) {
      int m = m0 + i * 16;
      loadFragment<SlabsA::turned>(
          left[i], SlabsA::turned
                       ? a + (k0 + lane % 8 + lane / 16 * 8) * SlabsA::stride + m + lane / 8 % 2 * 8
                       : a + (m + lane % 16) * SlabsA::stride + k0 + lane / 16 * 8);
    }
#pragma unroll
    for (int i = 0; i < Shape::warpN / 16; ++i) {
      int n = n0 + i * 16;
      loadFragment<SlabsB::turned>(
          right[i],
          SlabsB::turned
              ? b + (k0 + lane % 8 + lane / 8 % 2 * 8) * SlabsB::stride + n + lane / 16 * 8
              : b + (n + lane % 8 + lane / 16 * 8) * SlabsB::stride + k0 + lane / 8 % 2 * 8);
    }
#pragma unroll
    for (int i = 0; i < Shape::warpM / 16; ++i)
#pragma unroll
      for (int j = 0; j < Shape::warpN / 8; ++j)
        multiplyAdd(sums[i][j], left[i], right[j / 2][j % 2 * 2], right[j / 2][j % 2 * 2 + 1]);
  }
}

/// sums = A B over [kBegin, kEnd), of the block's tile.
template <class Shape, class A, class B>
__device__ __forceinline__ void accumulate(const A &a, const B &b, int kBegin, int kEnd,
                                           Sums<Shape> &sums) {
  using SlabsA = Slabs<A, Shape::tileM, Shape::threads>;
  using SlabsB = Slabs<B, Shape::tileN, Shape::threads>;
  extern __shared__ __align__(16) __half buffers[];
  auto bufferA = [&](int i) { return buffers + i * (SlabsA::halves + SlabsB::halves); };
  auto bufferB = [&](int i) { return bufferA(i) + SlabsA::halves; };
  SlabsA slabsA(a, blockIdx.x * Shape::tileM);
  SlabsB slabsB(b, blockIdx.y * Shape::tileN);
  int slabCount = (kEnd - kBegin + slab - 1) / slab;
  // A group for every slab, an empty one past the end: waiting counts groups.
  auto fetch = [&](int i) {
    if (i < slabCount) {
      slabsA.fetch(a, bufferA(i % Shape::stages), kBegin + i * slab, kEnd);
      slabsB.fetch(b, bufferB(i % Shape::stages), kBegin + i * slab, kEnd);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
#pragma unroll
  for (int i = 0; i < Shape::stages - 1; ++i)
    fetch(i);
  for (int i = 0; i < slabCount; ++i) {
    asm volatile("cp.async.wait_group %0;" ::"n"(Shape::stages - 2) : "memory");
    // Slab i is there for all, and all are done with slab i - 1, whose buffer is filled next.
    __syncthreads();
    fetch(i + Shape::stages - 1);
    multiplySlab<Shape, SlabsA, SlabsB>(bufferA(i % Shape::stages), bufferB(i % Shape::stages),
                                        sums);
  }
}

/// Leaves the block's sums, and of the block that comes last makes them all blocks' sums. Whether
/// this is that one.
template <class Shape>
__device__ __forceinline__ bool gather(const Splits &splits, int split, Sums<Shape> &sums) {
  constexpr int count = Shape::warpM / 16 * (Shape::warpN / 8) * 4;
  __shared__ bool last;
  auto *mine = reinterpret_cast<float *>(sums);
  long long tile = blockIdx.y * static_cast<long long>(gridDim.x) + blockIdx.x;
  float *kept = splits.sums + tile * splits.count * count * Shape::threads + threadIdx.x;
#pragma unroll
  for (int i = 0; i < count; ++i)
    kept[(split * count + i) * Shape::threads] = mine[i];
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    last = atomicAdd(&splits.arrived[tile], 1u) == static_cast<unsigned>(splits.count - 1);
    if (last)
      splits.arrived[tile] = 0; // for the next launch
  }
  __syncthreads();
  if (!last)
    return false;
  __threadfence();
#pragma unroll
  for (int i = 0; i < count; ++i)
    mine[i] = 0;
#pragma unroll 2 // more than one block's sums on their way
  for (int s = 0; s < splits.count; ++s)
#pragma unroll
    for (int i = 0; i < count; ++i)
      mine[i] += __ldcg(&kept[(s * count + i) * Shape::threads]);
  return true;
}

__device__ __forceinline__ float activate(float x, Activation activation) {
  switch (activation) {
  case Activation::gelu:
    return 0.5f * x * (1.0f + erff(x * 0.70710678f));
  case Activation::relu:
    return fmaxf(x, 0.0f);
  case Activation::tanh:
    return tanhf(x);
  case Activation::none:
    break;
  }
  return x;
}

struct __align__(16) Piece {
  __half2 pairs[4];
};

/// Eight neighbours of the result.
__device__ __forceinline__ void store(const Result &result, long long at, int column,
                                      float (&x)[8]) {
  auto add = [&x](const __half *from) {
    Piece piece = *reinterpret_cast<const Piece *>(from);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float2 more = __half22float2(piece.pairs[i]);
      x[2 * i] += more.x;
      x[2 * i + 1] += more.y;
    }
  };
  auto put = [&x](__half *to) {
    Piece piece;
#pragma unroll
    for (int i = 0; i < 4; ++i)
      piece.pairs[i] = __floats2half2_rn(x[2 * i], x[2 * i + 1]);
    *reinterpret_cast<Piece *>(to) = piece;
  };
#pragma unroll
  for (float &each : x)
    each *= result.scale;
  if (result.bias)
    add(result.bias + column);
  if (result.residual)
    add(result.residual + at);
  if (result.sums) {
    auto *to = reinterpret_cast<float4 *>(result.sums + at);
    to[0] = make_float4(x[0], x[1], x[2], x[3]);
    to[1] = make_float4(x[4], x[5], x[6], x[7]);
  }
  if (result.before)
    put(result.before + at);
  if (!result.out)
    return;
  if (result.activation != Activation::none)
#pragma unroll
    for (float &each : x)
      each = activate(each, result.activation);
  put(result.out + at);
}

/// The block's sums go through shared memory, so that each thread stores whole pieces.
template <class Shape>
__device__ __forceinline__ void storeTile(const Result &result, const Sums<Shape> &sums,
                                          long long base, int m, int n) {
  constexpr int stride = Shape::tileN + 8; // floats: a row's pairs fall on other banks
  extern __shared__ __align__(16) __half buffers[];
  auto *tile = reinterpret_cast<float *>(buffers);
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int row0 = warp / Shape::warpsN * Shape::warpM + lane / 4;
  int column0 = warp % Shape::warpsN * Shape::warpN + lane % 4 * 2;
  __syncthreads(); // the slabs were read
#pragma unroll
  for (int i = 0; i < Shape::warpM / 16; ++i)
#pragma unroll
    for (int j = 0; j < Shape::warpN / 8; ++j)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        *reinterpret_cast<float2 *>(tile + (row0 + i * 16 + half * 8) * stride + column0 + j * 8) =
            make_float2(sums[i][j][2 * half], sums[i][j][2 * half + 1]);
  __syncthreads();
  constexpr int perRow = Shape::tileN / 8;
#pragma unroll 1
  for (int i = threadIdx.x; i < Shape::tileM * perRow; i += Shape::threads) {
    int row = blockIdx.x * Shape::tileM + i / perRow;
    int column = blockIdx.y * Shape::tileN + i % perRow * 8;
    if (row >= m || column >= n)
      continue;
    float x[8];
    auto *from = reinterpret_cast<const float4 *>(tile + i / perRow * stride + i % perRow * 8);
    *reinterpret_cast<float4 *>(x) = from[0];
    *reinterpret_cast<float4 *>(x + 4) = from[1];
    store(result, base + static_cast<long long>(row) * result.stride + column, column, x);
  }
}

/// Grid: ceil(m / tileM), ceil(n / tileN), products of the batch * splits.
template <class Shape, class A, class B>
__global__ void __launch_bounds__(Shape::threads, Shape::blocksPerSm)
    multiply(A a, B b, Result result, Splits splits, int m, int n, int k) {
  int split = blockIdx.z % splits.count, index = blockIdx.z / splits.count;
  a.choose(index);
  b.choose(index);
  // Whole slabs to each split; the last one has what is left.
  int slabCount = (k + slab - 1) / slab;
  int perSplit = (slabCount + splits.count - 1) / splits.count * slab;
  int kBegin = min(k, split * perSplit), kEnd = min(k, kBegin + perSplit);
  Sums<Shape> sums = {};
  accumulate<Shape>(a, b, kBegin, kEnd, sums);
  if constexpr (Shape::maySplit)
    if (splits.count > 1 && !gather<Shape>(splits, split, sums))
      return;
  long long base = index / result.perOuter * result.outer + index % result.perOuter * result.inner;
  storeTile<Shape>(result, sums, base, m, n);
}

} // namespace workloads::product

#endif
