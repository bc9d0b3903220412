// A 16 × 16 tile a warp by the warp matrix functions, whose fragments are opaque: only operations
// that treat all elements alike are defined. Compared with plain sums; any bits serve as halves
// (mma_gemm.cu).
#include <mma.h>

using namespace nvcuda;

__device__ __half small(__half bits) { return __ushort_as_half(__half_as_ushort(bits) & 0x8007); }

extern "C" __global__ void wmma_gemm(float *out, const __half *a, const __half *b, unsigned k) {
  __shared__ float tile[16 * 20];
  unsigned lane = threadIdx.x, n = gridDim.x * 16;
  a += blockIdx.y * 16 * k;
  b += blockIdx.x * 16;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
  wmma::fill_fragment(sum, 0.0f);
  for (unsigned column = 0; column < k; column += 16) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> right;
    wmma::load_matrix_sync(left, a + column, k);
    wmma::load_matrix_sync(right, b + column * n, n);
    for (int i = 0; i < left.num_elements; ++i)
      left.x[i] = small(left.x[i]);
    for (int i = 0; i < right.num_elements; ++i)
      right.x[i] = small(right.x[i]);
    wmma::mma_sync(sum, left, right, sum);
  }
  wmma::store_matrix_sync(tile, sum, 20, wmma::mem_col_major);
  __syncwarp();
#pragma unroll 1
  for (unsigned i = lane; i < 256; i += 32) {
    unsigned row = i / 16, column = i % 16;
    float plain = 0;
#pragma unroll 1
    for (unsigned l = 0; l < k; ++l)
      plain += __half2float(small(a[row * k + l])) * __half2float(small(b[l * n + column]));
    if (plain != tile[column * 20 + row])
      __trap();
    out[(blockIdx.y * 16 + row) * n + blockIdx.x * 16 + column] = plain;
  }
}
