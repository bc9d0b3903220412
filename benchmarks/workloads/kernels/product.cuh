// Matrix products on tensor cores, result = A B: f16 operands, sums in f32, mma.sync m16n8k16.
// cp.async brings slabs along k into a ring of buffers. ldmatrix loads fragments ahead of the
// multiplications: the left operand's by a step of 16, the right operand's by 16 columns. If a
// result has few tiles, blocks share k (split-K): each block stores its sums in memory, and the
// last block adds up all sums in the order of k. So no result depends on the order of the blocks.
//
// Operands are types, so a convolution is a product whose operand computes the addresses of its
// pieces (operands.cuh). Every piece is 8 contiguous halves, 16 bytes.
#ifndef TALLY_BENCHMARKS_WORKLOADS_KERNELS_PRODUCT_CUH
#define TALLY_BENCHMARKS_WORKLOADS_KERNELS_PRODUCT_CUH

#include "result.cuh"
#include "slabs.cuh"

namespace workloads::product {

/// A block of warpsM x warpsN warps computes tileM x tileN results, `slab` of k at a time, with
/// `stages` slabs in flight or in use; an SM should hold `blocksPerSm` blocks.
template <int m, int n, int depth, int perM, int perN, int buffers, int resident> struct Tile {
  static constexpr int tileM = m, tileN = n, slab = depth, warpsM = perM, warpsN = perN;
  static constexpr int stages = buffers, blocksPerSm = resident, threads = 32 * perM * perN;
  static constexpr int warpM = m / perM, warpN = n / perN;
  static_assert(warpM % 16 == 0 && warpN % 16 == 0, "whole fragments");
};

/// The split of k: for each tile the sums of `splits` blocks, and the number of blocks that have
/// stored theirs.
struct Splits {
  int count = 1;
  float4 *sums = nullptr;
  unsigned *arrived = nullptr;
};

__device__ __forceinline__ void multiplyAdd(float (&sum)[4], const unsigned (&a)[4], unsigned b0,
                                            unsigned b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
      "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <class Shape> using Sums = float[Shape::warpM / 16][Shape::warpN / 8][4];

/// Adds the products of a step's left fragments and the pair-th 16 columns of the warp's part.
template <class Shape>
__device__ __forceinline__ void multiplyPair(Sums<Shape> &sums,
                                             const unsigned (&a)[Shape::warpM / 16][4],
                                             const unsigned (&b)[4], int pair) {
#pragma unroll
  for (int i = 0; i < Shape::warpM / 16; ++i)
#pragma unroll
    for (int half = 0; half < 2; ++half)
      multiplyAdd(sums[i][pair * 2 + half], a[i], b[half * 2], b[half * 2 + 1]);
}

/// The tile's begin and number.
struct Place {
  int m, n;
  long long number;
};

/// sums = A B over [kBegin, kEnd), for the block's tile.
template <class Shape, class A, class B>
__device__ __forceinline__ void accumulate(const A &a, const B &b, const Place &tile, int kBegin,
                                           int kEnd, Sums<Shape> &sums) {
  using SlabsA = Slabs<A, Shape::tileM, Shape::slab, Shape::threads>;
  using SlabsB = Slabs<B, Shape::tileN, Shape::slab, Shape::threads>;
  using Left = Fragments<SlabsA, Shape::warpM, true>;
  using Right = Fragments<SlabsB, Shape::warpN, false>;
  constexpr int stageBytes = SlabsA::bytes + SlabsB::bytes, steps = Shape::slab / 16;
  constexpr int ringBytes = Shape::stages * stageBytes;
  extern __shared__ __align__(16) unsigned char ring[];
  const unsigned buffers = sharedAddress(ring);
  const int warp = threadIdx.x / 32;
  SlabsA slabsA(a, tile.m);
  SlabsB slabsB(b, tile.n);
  Left left(warp / Shape::warpsN * Shape::warpM);
  Right right(warp % Shape::warpsN * Shape::warpN);
  // Commits a group for every slab, an empty one past the end, since the wait counts groups.
  auto fetch = [&](int buffer, int k) {
    if (k < kEnd) {
      slabsA.fetch(a, buffers + buffer, k, kEnd);
      slabsB.fetch(b, buffers + buffer + SlabsA::bytes, k, kEnd);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  // Waits until the next slab is complete for all threads, and all have read the last fragments of
  // the slab before.
  auto meet = [] {
    asm volatile("cp.async.wait_group %0;" ::"n"(Shape::stages - 2) : "memory");
    __syncthreads();
  };
#pragma unroll
  for (int i = 0; i < Shape::stages - 1; ++i)
    fetch(i * stageBytes, kBegin + i * Shape::slab);
  meet();
  int reading = 0, filling = ringBytes - stageBytes;
  // The right operand's buffer holds less than a step: with warps of 64 x 64, variants need those
  // registers.
  unsigned fromA[2][Left::count][4], fromB[2][4];
  auto loadLeft = [&](int step) {
#pragma unroll
    for (int i = 0; i < Left::count; ++i)
      left.load(fromA[step % 2][i], buffers + reading, step % steps, i);
  };
  constexpr int pairs = Right::count, all = steps * pairs;
  auto loadRight = [&](int pair) {
    right.load(fromB[pair % 2], buffers + reading + SlabsA::bytes, pair / pairs % steps,
               pair % pairs);
  };
  loadLeft(0);
  loadRight(0);
#pragma unroll 1
  for (int k = kBegin; k < kEnd; k += Shape::slab) {
#pragma unroll
    for (int pair = 0; pair < all; ++pair) {
      const int step = pair / pairs;
      const bool slabEnds = pair == all - 1;
      if (slabEnds) {
        meet();
        filling = reading;
        reading = reading + stageBytes == ringBytes ? 0 : reading + stageBytes;
      }
      loadRight(pair + 1);
      if (slabEnds || (pair % pairs == 0 && step < steps - 1))
        loadLeft(step + 1);
      if (pair == 0)
        fetch(filling, k + (Shape::stages - 1) * Shape::slab);
      multiplyPair<Shape>(sums, fromA[step % 2], fromB[pair % 2], pair % pairs);
    }
  }
}

/// Stores the block's sums. The last block replaces its sums by those of all blocks. Returns
/// whether this block is the last one.
template <class Shape>
__device__ __forceinline__ bool gather(const Splits &splits, const Place &tile, int split,
                                       Sums<Shape> &sums) {
  constexpr int count = Shape::warpM / 16 * (Shape::warpN / 8);
  auto *mine = reinterpret_cast<float4 *>(sums);
  float4 *kept = splits.sums + tile.number * splits.count * count * Shape::threads + threadIdx.x;
#pragma unroll
  for (int i = 0; i < count; ++i)
    kept[(split * count + i) * Shape::threads] = mine[i];
  __threadfence();
  __syncthreads();
  bool last = false;
  if (threadIdx.x == 0) {
    last = atomicAdd(&splits.arrived[tile.number], 1u) == static_cast<unsigned>(splits.count - 1);
    if (last)
      splits.arrived[tile.number] = 0; // for the next launch
  }
  // The barrier makes the value uniform in the block, also for a rewriter of this kernel.
  if (!__syncthreads_or(last))
    return false;
  __threadfence();
#pragma unroll
  for (int i = 0; i < count; ++i)
    mine[i] = make_float4(0, 0, 0, 0);
#pragma unroll(count > 16 ? 1 : 2) // sums of more than one block in flight, if registers allow
  for (int s = 0; s < splits.count; ++s)
#pragma unroll
    for (int i = 0; i < count; ++i) {
      float4 more = __ldcg(&kept[(s * count + i) * Shape::threads]);
      mine[i].x += more.x;
      mine[i].y += more.y;
      mine[i].z += more.z;
      mine[i].w += more.w;
    }
  return true;
}

/// Each warp moves its sums through its own part of shared memory, some rows at a time, so that
/// each thread stores whole pieces.
template <class Shape> struct Staging {
  static constexpr int stride = Shape::warpN + 8; // floats: adjacent rows use other banks
  static constexpr int warps = Shape::warpsM * Shape::warpsN;
  static constexpr int rows = Shape::warpM % 32 == 0 ? 32 : 16;
  static constexpr int floats = rows * stride, bytes = warps * floats * 4;
  static constexpr int perLane = rows * (Shape::warpN / 8) / 32;
  /// Pieces that a lane stores at once, if the store adds nothing to them.
  static constexpr int together = perLane % 4 == 0 ? 4 : perLane % 3 == 0 ? 3 : 1;
};

/// A block's dynamic shared memory.
template <class Shape>
constexpr int sharedBytes = Shape::stages * (Shape::tileM + Shape::tileN) * Shape::slab * 2;

/// Stores a warp's staged rows, which begin at `row0` and `column0`. Each lane stores `together`
/// pieces at once, so one wait for shared memory serves all of them.
template <class Shape, int together>
__device__ __forceinline__ void storeRows(const Result &result, const float *staged, int row0,
                                          int column0, long long base, int m, int n) {
  using Rows = Staging<Shape>;
  constexpr int perRow = Shape::warpN / 8;
#pragma unroll 1
  for (int first = threadIdx.x % 32; first < Rows::rows * perRow; first += 32 * together) {
    float x[together][8];
#pragma unroll
    for (int t = 0; t < together; ++t) {
      int i = first + t * 32;
      auto *from =
          reinterpret_cast<const float4 *>(staged + i / perRow * Rows::stride + i % perRow * 8);
      *reinterpret_cast<float4 *>(x[t]) = from[0];
      *reinterpret_cast<float4 *>(x[t] + 4) = from[1];
    }
#pragma unroll
    for (int t = 0; t < together; ++t) {
      int i = first + t * 32, row = row0 + i / perRow, column = column0 + i % perRow * 8;
      if (row < m && column < n)
        store(result, base + static_cast<long long>(row) * result.stride + column, column, x[t]);
    }
  }
}

template <class Shape>
__device__ __forceinline__ void storeTile(const Result &result, const Sums<Shape> &sums,
                                          const Place &tile, long long base, int m, int n) {
  using Rows = Staging<Shape>;
  static_assert(Rows::bytes <= sharedBytes<Shape>, "room for the sums");
  constexpr int fragments = Rows::rows / 16;
  extern __shared__ __align__(16) unsigned char ring[];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  float *staged = reinterpret_cast<float *>(ring) + warp * Rows::floats;
  int row0 = tile.m + warp / Shape::warpsN * Shape::warpM;
  int column0 = tile.n + warp % Shape::warpsN * Shape::warpN;
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads(); // all slabs have arrived and all warps have read them
#pragma unroll
  for (int part = 0; part < Shape::warpM / Rows::rows; ++part) {
    __syncwarp();
#pragma unroll
    for (int i = 0; i < fragments; ++i)
#pragma unroll
      for (int j = 0; j < Shape::warpN / 8; ++j)
#pragma unroll
        for (int half = 0; half < 2; ++half)
          *reinterpret_cast<float2 *>(staged + (lane / 4 + i * 16 + half * 8) * Rows::stride +
                                      lane % 4 * 2 + j * 8) =
              make_float2(sums[part * fragments + i][j][2 * half],
                          sums[part * fragments + i][j][2 * half + 1]);
    __syncwarp();
    if (result.isBare())
      storeRows<Shape, Rows::together>(result.bare(), staged, row0 + part * Rows::rows, column0,
                                       base, m, n);
    else
      storeRows<Shape, 1>(result, staged, row0 + part * Rows::rows, column0, base, m, n);
  }
}

/// Concurrent blocks should share operands: `group` tiles along m, then their neighbours along n.
template <class Shape> __device__ __forceinline__ Place placeOf(int group) {
  int number = blockIdx.y * gridDim.x + blockIdx.x, size = group * gridDim.y;
  int first = number / size * group, along = min(gridDim.x - first, group), in = number % size;
  return {(first + in % along) * Shape::tileM, in / along * Shape::tileN, number};
}

/// Grid: ceil(m / tileM), ceil(n / tileN), products of the batch * splits.
template <class Shape, class A, class B>
__global__ void __launch_bounds__(Shape::threads, Shape::blocksPerSm)
    multiply(A a, B b, Result result, Splits splits, int group, int m, int n, int k) {
  int split = blockIdx.z % splits.count, index = blockIdx.z / splits.count;
  a.choose(index);
  b.choose(index);
  Place tile = placeOf<Shape>(group);
  // Each split gets whole slabs; the last one gets the rest.
  int slabCount = (k + Shape::slab - 1) / Shape::slab;
  int perSplit = (slabCount + splits.count - 1) / splits.count * Shape::slab;
  int kBegin = min(k, split * perSplit), kEnd = min(k, kBegin + perSplit);
  Sums<Shape> sums = {};
  accumulate<Shape>(a, b, tile, kBegin, kEnd, sums);
  if (splits.count > 1 && !gather<Shape>(splits, tile, split, sums))
    return;
  long long base = index / result.perOuter * result.outer + index % result.perOuter * result.inner;
  storeTile<Shape>(result, sums, tile, base, m, n);
}

} // namespace workloads::product

#endif
