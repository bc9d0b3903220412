// Training that multiplies matrices, by tiles in shared memory, with barriers in the long loop.
#ifndef TALLY_BENCHMARKS_COLOCATION_PRODUCT_CUH
#define TALLY_BENCHMARKS_COLOCATION_PRODUCT_CUH

#include "checking.cuh"

namespace colocation {

struct Tile {
  static constexpr unsigned side = 64; ///< rows and columns of a block's part of the result
  static constexpr unsigned depth = 16;
  static constexpr unsigned own = 4; ///< rows and columns of a thread's part
};

/// Returns a value from -4 to 3: sums of up to 2^20 products are exact.
__device__ inline float factorAt(unsigned index) {
  return static_cast<float>(wordAt(index) >> 29) - 4;
}

static __global__ void fillFactors(float *memory, unsigned count, unsigned first) {
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
    memory[i] = factorAt(first + i);
}

/// c += a b. Rows of a have `stride` elements and rows of b `columns`; the product uses `depth` of
/// a's elements.
static __global__ void __launch_bounds__(threads)
    multiply(const float *a, const float *b, unsigned *c, unsigned columns, unsigned stride,
             unsigned depth) {
  __shared__ float aTile[Tile::depth][Tile::side], bTile[Tile::depth][Tile::side];
  unsigned row = blockIdx.y * Tile::side, column = blockIdx.x * Tile::side;
  unsigned aRow = threadIdx.x / 4, aColumn = threadIdx.x % 4 * 4;
  unsigned bRow = threadIdx.x / 16, bColumn = threadIdx.x % 16 * 4;
  unsigned ownRow = threadIdx.x / 16 * Tile::own, ownColumn = threadIdx.x % 16 * Tile::own;
  const float *aNext = a + std::size_t{row + aRow} * stride + aColumn;
  const float *bNext = b + std::size_t{bRow} * columns + column + bColumn;
  float sum[Tile::own][Tile::own] = {};
  for (unsigned k = 0; k < depth; k += Tile::depth) {
    float4 fromA = *reinterpret_cast<const float4 *>(aNext);
    float4 fromB = *reinterpret_cast<const float4 *>(bNext);
    aNext += Tile::depth;
    bNext += std::size_t{Tile::depth} * columns;
    __syncthreads();
    aTile[aColumn][aRow] = fromA.x;
    aTile[aColumn + 1][aRow] = fromA.y;
    aTile[aColumn + 2][aRow] = fromA.z;
    aTile[aColumn + 3][aRow] = fromA.w;
    *reinterpret_cast<float4 *>(&bTile[bRow][bColumn]) = fromB;
    __syncthreads();
#pragma unroll
    for (unsigned i = 0; i < Tile::depth; ++i) {
      float4 left = *reinterpret_cast<const float4 *>(&aTile[i][ownRow]);
      float4 right = *reinterpret_cast<const float4 *>(&bTile[i][ownColumn]);
      float lefts[] = {left.x, left.y, left.z, left.w};
      float rights[] = {right.x, right.y, right.z, right.w};
#pragma unroll
      for (unsigned r = 0; r < Tile::own; ++r)
#pragma unroll
        for (unsigned s = 0; s < Tile::own; ++s)
          sum[r][s] += lefts[r] * rights[s];
    }
  }
#pragma unroll
  for (unsigned r = 0; r < Tile::own; ++r)
#pragma unroll
    for (unsigned s = 0; s < Tile::own; ++s)
      c[std::size_t{row + ownRow + r} * columns + column + ownColumn + s] +=
          static_cast<unsigned>(__float2int_rn(sum[r][s]));
}

/// Checks one element of each thread's part.
static __global__ void countRightElements(const float *a, const float *b, const unsigned *c,
                                          unsigned columns, unsigned stride, unsigned depth,
                                          unsigned launches, unsigned long long *right) {
  unsigned which = (blockIdx.x + 3 * blockIdx.y + threadIdx.x) % (Tile::own * Tile::own);
  unsigned row = blockIdx.y * Tile::side + threadIdx.x / 16 * Tile::own + which / Tile::own;
  unsigned column = blockIdx.x * Tile::side + threadIdx.x % 16 * Tile::own + which % Tile::own;
  int sum = 0;
  for (unsigned k = 0; k < depth; ++k)
    sum += static_cast<int>(a[std::size_t{row} * stride + k]) *
           static_cast<int>(b[std::size_t{k} * columns + column]);
  if (c[std::size_t{row} * columns + column] == static_cast<unsigned>(sum) * launches)
    atomicAdd(right, 1ull);
}

class Product final : public Training {
public:
  Product(unsigned blocks, int rounds, unsigned outputs)
      : grid(std::min(blocks, 64u), (blocks + std::min(blocks, 64u) - 1) / std::min(blocks, 64u)),
        stride(depthOf(rounds)), a(std::size_t{rows()} * stride),
        b(std::size_t{columns()} * stride) {
    for (unsigned i = 0; i < outputs; ++i)
      c.emplace_back(std::size_t{rows()} * columns());
    fillFactors<<<1056, threads>>>(a.data(), static_cast<unsigned>(a.size()), 0);
    fillFactors<<<1056, threads>>>(b.data(), static_cast<unsigned>(b.size()), 1u << 31);
    check(cudaGetLastError(), "launch");
  }
  void launch(unsigned output, int rounds, cudaStream_t stream) override {
    multiply<<<grid, threads, 0, stream>>>(a.data(), b.data(), c[output].data(), columns(), stride,
                                           depthOf(rounds));
  }
  std::size_t wrongResults(unsigned output, int rounds, unsigned launches) override {
    std::size_t all = std::size_t{grid.x} * grid.y * threads;
    return wrongOf(all, [&](cudaStream_t stream, auto *right) {
      countRightElements<<<grid, threads, 0, stream>>>(a.data(), b.data(), c[output].data(),
                                                       columns(), stride, depthOf(rounds), launches,
                                                       right);
    });
  }

private:
  static unsigned depthOf(int rounds) { return static_cast<unsigned>(rounds) * Tile::depth; }
  unsigned rows() const { return grid.y * Tile::side; }
  unsigned columns() const { return grid.x * Tile::side; }

  dim3 grid;
  unsigned stride;
  Buffer<float> a, b;
  std::vector<Buffer<unsigned>> c;
};

static const TrainingKind productKind = {
    "gemm", reinterpret_cast<const void *>(multiply), 8, 88,
    [](unsigned blocks, int rounds, unsigned outputs) -> std::unique_ptr<Training> {
      return std::make_unique<Product>(blocks, rounds, outputs);
    }};

} // namespace colocation

#endif
