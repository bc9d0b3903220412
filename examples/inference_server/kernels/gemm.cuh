// Matrix products in fp32, row-major: 64x64 tile of the result per thread block, 256 threads with
// 4x4 results each, the next slab of the operands on its way to registers while the current one is
// multiplied. Every size is bounds-checked. The sums over k run in ascending order, so a result
// does not depend on the launch. Four blocks fit an SM of 64 K registers.
#ifndef INFERENCE_SERVER_KERNELS_GEMM_CUH
#define INFERENCE_SERVER_KERNELS_GEMM_CUH

namespace gemm {

constexpr int tile = 64, slab = 16, threads = 256;
constexpr int padded = tile + 4; // keeps rows 16-byte aligned and spreads the banks

// Rows are read as float4.
struct __align__(16) Slabs {
  float a[2][slab][padded], b[2][slab][padded];
};

// One thread's part of the next slab: 4 elements of each operand.
struct InFlight {
  float a[4], b[4];
};

// Elements (m, k) of A and (k, n) of B for this thread; zero outside of the matrices. Neighbouring
// threads read neighbouring addresses in either storage order.
template <bool transposedA, bool transposedB>
__device__ __forceinline__ InFlight fetch(const float *a, const float *b, int m0, int n0, int k0,
                                          int m, int n, int k, int kEnd) {
  InFlight next;
  int t = threadIdx.x;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    int row = m0 + (transposedA ? t % 64 : t / 16 + 16 * i);
    int inner = k0 + (transposedA ? t / 64 + 4 * i : t % 16);
    bool inside = row < m && inner < kEnd;
    next.a[i] = inside ? a[transposedA ? inner * m + row : row * k + inner] : 0.0f;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    int column = n0 + (transposedB ? t / 16 + 16 * i : t % 64);
    int inner = k0 + (transposedB ? t % 16 : t / 64 + 4 * i);
    bool inside = column < n && inner < kEnd;
    next.b[i] = inside ? b[transposedB ? column * k + inner : inner * n + column] : 0.0f;
  }
  return next;
}

template <bool transposedA, bool transposedB>
__device__ __forceinline__ void put(Slabs &slabs, int buffer, const InFlight &next) {
  int t = threadIdx.x;
#pragma unroll
  for (int i = 0; i < 4; ++i)
    slabs.a[buffer][transposedA ? t / 64 + 4 * i : t % 16][transposedA ? t % 64 : t / 16 + 16 * i] =
        next.a[i];
#pragma unroll
  for (int i = 0; i < 4; ++i)
    slabs.b[buffer][transposedB ? t % 16 : t / 64 + 4 * i][transposedB ? t / 16 + 16 * i : t % 64] =
        next.b[i];
}

__device__ __forceinline__ void multiply(const Slabs &slabs, int buffer, float (&sum)[4][4]) {
  int x = threadIdx.x % 16 * 4, y = threadIdx.x / 16 * 4;
#pragma unroll
  for (int i = 0; i < slab; ++i) {
    float4 a = *reinterpret_cast<const float4 *>(&slabs.a[buffer][i][y]);
    float4 b = *reinterpret_cast<const float4 *>(&slabs.b[buffer][i][x]);
    float left[4] = {a.x, a.y, a.z, a.w}, right[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
    for (int r = 0; r < 4; ++r)
#pragma unroll
      for (int c = 0; c < 4; ++c)
        sum[r][c] += left[r] * right[c];
  }
}

// result[m, n] = sum over k in [kBegin, kEnd) of A[m, k] * B[k, n], plus bias[n] where there is
// one. A is stored [m][k], or [k][m] when transposed; B [k][n], or [n][k].
template <bool transposedA, bool transposedB>
__device__ __forceinline__ void product(const float *a, const float *b, const float *bias,
                                        float *result, int m, int n, int k, int kBegin, int kEnd) {
  __shared__ Slabs slabs;
  int m0 = blockIdx.y * tile, n0 = blockIdx.x * tile;
  float sum[4][4] = {};
  put<transposedA, transposedB>(
      slabs, 0, fetch<transposedA, transposedB>(a, b, m0, n0, kBegin, m, n, k, kEnd));
  __syncthreads();
  int buffer = 0;
  for (int k0 = kBegin; k0 < kEnd; k0 += slab) {
    // Past the last slab this fetches zeros, which no thread reads.
    InFlight next = fetch<transposedA, transposedB>(a, b, m0, n0, k0 + slab, m, n, k, kEnd);
    multiply(slabs, buffer, sum);
    buffer ^= 1;
    put<transposedA, transposedB>(slabs, buffer, next);
    __syncthreads();
  }
  int x = n0 + threadIdx.x % 16 * 4, y = m0 + threadIdx.x / 16 * 4;
#pragma unroll
  for (int r = 0; r < 4; ++r)
#pragma unroll
    for (int c = 0; c < 4; ++c)
      if (y + r < m && x + c < n)
        result[(y + r) * n + x + c] = sum[r][c] + (bias ? bias[x + c] : 0.0f);
}

} // namespace gemm

// result = A B + bias. Grid: ceil(n / 64), ceil(m / 64). Block: 256.
extern "C" __global__ void __launch_bounds__(256, 4)
    gemm_nn(const float *a, const float *b, const float *bias, float *result, int m, int n, int k) {
  gemm::product<false, false>(a, b, bias, result, m, n, k, 0, k);
}

// result = A B^T: the gradient with respect to a layer's input. Grid and block as gemm_nn.
extern "C" __global__ void __launch_bounds__(256, 4)
    gemm_nt(const float *a, const float *b, float *result, int m, int n, int k) {
  gemm::product<false, true>(a, b, nullptr, result, m, n, k, 0, k);
}

// partials[z] = A^T B over the z-th chunk of k: the gradient with respect to a layer's weights,
// whose k is the whole batch. sum_splits adds the chunks up in a fixed order.
// Grid: ceil(n / 64), ceil(m / 64), ceil(k / chunk). Block: 256.
extern "C" __global__ void __launch_bounds__(256, 4)
    gemm_tn_split(const float *a, const float *b, float *partials, int m, int n, int k, int chunk) {
  int begin = blockIdx.z * chunk;
  float *result = partials + static_cast<long long>(blockIdx.z) * m * n;
  gemm::product<true, false>(a, b, nullptr, result, m, n, k, begin, min(k, begin + chunk));
}

#endif
