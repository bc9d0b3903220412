// Matrix products on tensor cores: f16 operands, sums in f32, row-major. 64x64 tile of the result
// per thread block of 4 warps with 32x32 each; slabs of 32 along k come by cp.async into two
// buffers, fragments by ldmatrix. Rows of every matrix are multiples of 8 halves (16 bytes); apart
// from that sizes are bounds-checked. Sums run in ascending order of k: no result depends on the
// launch.
#ifndef INFERENCE_SERVER_KERNELS_TENSOR_GEMM_CUH
#define INFERENCE_SERVER_KERNELS_TENSOR_GEMM_CUH

#include <cuda_fp16.h>

namespace tensor {

constexpr int tile = 64, slab = 32, threads = 128;
constexpr int padding = 8;                             // halves: rows fall on different banks
constexpr int operandHalves = tile * (slab + padding); // size of the larger layout of a slab

struct __align__(16) Slabs {
  __half a[2][operandHalves], b[2][operandHalves];
};

__device__ __forceinline__ unsigned sharedAddress(const void *pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// `rows` x `columns` halves from (row0, column0) on; zeros outside of the matrix.
template <int rows, int columns>
__device__ __forceinline__ void fetch(__half *to, const __half *from, int row0, int column0,
                                      int rowsEnd, int columnsEnd, int stride) {
#pragma unroll
  for (int i = 0; i < rows * columns / 8 / threads; ++i) {
    int piece = threadIdx.x + i * threads;
    int row = piece / (columns / 8), column = piece % (columns / 8) * 8;
    bool inside = row0 + row < rowsEnd && column0 + column < columnsEnd;
    const __half *source =
        inside ? from + static_cast<long long>(row0 + row) * stride + column0 + column : from;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                     sharedAddress(to + row * (columns + padding) + column)),
                 "l"(source), "r"(inside ? 16 : 0));
  }
}

template <bool transposed>
__device__ __forceinline__ void loadFragment(unsigned (&registers)[4], const __half *from) {
  if (transposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
                 : "r"(sharedAddress(from)));
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
                 : "r"(sharedAddress(from)));
}

__device__ __forceinline__ void multiplyAdd(float (&sum)[4], const unsigned (&a)[4], unsigned b0,
                                            unsigned b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
               "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Multiplies one slab and adds the products to the warp's 32x32 results.
template <bool transposedA, bool transposedB>
__device__ __forceinline__ void multiply(const __half *a, const __half *b, float (&sum)[2][4][4]) {
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int m0 = warp / 2 * 32, n0 = warp % 2 * 32;
  constexpr int strideA = (transposedA ? tile : slab) + padding;
  constexpr int strideB = (transposedB ? slab : tile) + padding;
#pragma unroll
  for (int k0 = 0; k0 < slab; k0 += 16) {
    unsigned left[2][4], right[2][4];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      int m = m0 + i * 16;
      // ldmatrix transposes the tiles of a matrix stored as [k][m].
      loadFragment<transposedA>(left[i], transposedA
                                             ? a + (k0 + lane % 8 + lane / 16 * 8) * strideA + m +
                                                   lane / 8 % 2 * 8
                                             : a + (m + lane % 16) * strideA + k0 + lane / 16 * 8);
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      int n = n0 + i * 16;
      // The fragment of B needs neighbours along k, so ldmatrix transposes the tiles of [k][n].
      loadFragment<!transposedB>(
          right[i], transposedB
                        ? b + (n + lane % 8 + lane / 16 * 8) * strideB + k0 + lane / 8 % 2 * 8
                        : b + (k0 + lane % 8 + lane / 8 % 2 * 8) * strideB + n + lane / 16 * 8);
    }
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j)
        multiplyAdd(sum[i][j], left[i], right[j / 2][j % 2 * 2], right[j / 2][j % 2 * 2 + 1]);
  }
}

// sum = A B over [kBegin, kEnd). A is stored [m][k], or [k][m] when transposed; B [k][n], or
// [n][k].
template <bool transposedA, bool transposedB>
__device__ __forceinline__ void product(const __half *a, const __half *b, int m, int n, int k,
                                        int kBegin, int kEnd, float (&sum)[2][4][4]) {
  __shared__ Slabs slabs;
  int m0 = blockIdx.y * tile, n0 = blockIdx.x * tile;
  auto bring = [&](int buffer, int k0) {
    if (transposedA)
      fetch<slab, tile>(slabs.a[buffer], a, k0, m0, kEnd, m, m);
    else
      fetch<tile, slab>(slabs.a[buffer], a, m0, k0, m, kEnd, k);
    if (transposedB)
      fetch<tile, slab>(slabs.b[buffer], b, n0, k0, n, kEnd, k);
    else
      fetch<slab, tile>(slabs.b[buffer], b, k0, n0, kEnd, n, n);
    asm volatile("cp.async.commit_group;");
  };
  bring(0, kBegin);
  int buffer = 0;
  for (int k0 = kBegin; k0 < kEnd; k0 += slab) {
    bring(buffer ^ 1, k0 + slab); // past the last slab: zeros, which no thread reads
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    __syncthreads();
    multiply<transposedA, transposedB>(slabs.a[buffer], slabs.b[buffer], sum);
    buffer ^= 1;
    __syncthreads();
  }
  asm volatile("cp.async.wait_all;" ::: "memory");
}

// Calls store(row, column, low, high) for the pairs of neighbours that this thread holds.
template <class Store>
__device__ __forceinline__ void forPairs(const float (&sum)[2][4][4], int m, int n, Store store) {
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        int row = blockIdx.y * tile + warp / 2 * 32 + i * 16 + half * 8 + lane / 4;
        int column = blockIdx.x * tile + warp % 2 * 32 + j * 8 + lane % 4 * 2;
        if (row < m && column < n)
          store(row, column, sum[i][j][2 * half], sum[i][j][2 * half + 1]);
      }
}

} // namespace tensor

// result = A B + bias, plus `residual` where there is one. Grid: ceil(n / 64), ceil(m / 64).
// Block: 128.
extern "C" __global__ void __launch_bounds__(128, 5)
    tensor_nn(const __half *a, const __half *b, const __half *bias, const __half *residual,
              __half *result, int m, int n, int k) {
  float sum[2][4][4] = {};
  tensor::product<false, false>(a, b, m, n, k, 0, k, sum);
  tensor::forPairs(sum, m, n, [=](int row, int column, float low, float high) {
    long long at = static_cast<long long>(row) * n + column;
    float2 added = __half22float2(*reinterpret_cast<const __half2 *>(bias + column));
    if (residual) {
      float2 more = __half22float2(*reinterpret_cast<const __half2 *>(residual + at));
      added.x += more.x;
      added.y += more.y;
    }
    *reinterpret_cast<__half2 *>(result + at) = __floats2half2_rn(low + added.x, high + added.y);
  });
}

// result = A B^T: the gradient with respect to a layer's input. Grid and block as tensor_nn.
extern "C" __global__ void __launch_bounds__(128, 5)
    tensor_nt(const __half *a, const __half *b, __half *result, int m, int n, int k) {
  float sum[2][4][4] = {};
  tensor::product<false, true>(a, b, m, n, k, 0, k, sum);
  tensor::forPairs(sum, m, n, [=](int row, int column, float low, float high) {
    *reinterpret_cast<__half2 *>(result + static_cast<long long>(row) * n + column) =
        __floats2half2_rn(low, high);
  });
}

// partials[z] = A^T B over the z-th chunk of k, in f32: the gradient with respect to a layer's
// weights, whose k is all rows. sum_splits adds the chunks up in a fixed order.
// Grid: ceil(n / 64), ceil(m / 64), ceil(k / chunk). Block: 128.
extern "C" __global__ void __launch_bounds__(128, 5)
    tensor_tn_split(const __half *a, const __half *b, float *partials, int m, int n, int k,
                    int chunk) {
  float sum[2][4][4] = {};
  int begin = blockIdx.z * chunk;
  tensor::product<true, false>(a, b, m, n, k, begin, min(k, begin + chunk), sum);
  float *result = partials + static_cast<long long>(blockIdx.z) * m * n;
  tensor::forPairs(sum, m, n, [=](int row, int column, float low, float high) {
    *reinterpret_cast<float2 *>(result + static_cast<long long>(row) * n + column) =
        make_float2(low, high);
  });
}

#endif
