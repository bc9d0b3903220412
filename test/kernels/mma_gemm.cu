// A tile of a product on tensor cores: cp.async into two buffers, ldmatrix, mma. out = a × bᵀ,
// where a is (32 gridDim.y) × k and b (32 gridDim.x) × k. The kernel also computes every sum
// plainly and compares.
//
// The halves may be any bits: masked to a sign and three low bits they are small multiples of
// 2^-24, whose products and sums are exact in f32, so that every device gives the same bits.
#include <cuda_fp16.h>

// `pitch` makes 48 bytes a row: no bank conflicts, and aligned.
constexpr unsigned tile = 32, step = 16, pitch = 24;

__device__ unsigned sharedAddress(const void *pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}
__device__ void copy16(__half *to, const __half *from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(sharedAddress(to)), "l"(from));
}
__device__ float small(__half bits) {
  return __half2float(__ushort_as_half(__half_as_ushort(bits) & 0x8007));
}

/// 64 threads copy 32 rows of 16 halves of each matrix.
__device__ void fetch(__half (*to)[pitch], const __half *from, unsigned k, unsigned column) {
  unsigned row = threadIdx.x / 2, part = threadIdx.x % 2 * 8;
  copy16(&to[row][part], from + row * k + column + part);
}

extern "C" __global__ void mma_gemm(float *out, const __half *a, const __half *b, unsigned k) {
  __shared__ alignas(16) __half left[2][tile][pitch], right[2][tile][pitch];
  unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, n = gridDim.x * tile;
  a += blockIdx.y * tile * k;
  b += blockIdx.x * tile * k;
  float sum[4][4] = {};
  fetch(left[0], a, k, 0);
  fetch(right[0], b, k, 0);
  asm volatile("cp.async.commit_group;");
  for (unsigned column = 0; column < k; column += step) {
    unsigned now = column / step % 2;
    if (column + step < k) {
      fetch(left[now ^ 1], a, k, column + step);
      fetch(right[now ^ 1], b, k, column + step);
    }
    asm volatile("cp.async.commit_group;\n\tcp.async.wait_group 1;" ::: "memory");
    __syncthreads();
    unsigned x[4], y[2];
    unsigned from = sharedAddress(&left[now][warp * 16 + lane % 16][lane / 16 * 8]);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(from));
    for (unsigned &each : x)
      each &= 0x80078007u;
    for (unsigned j = 0; j < 4; ++j) {
      from = sharedAddress(&right[now][j * 8 + lane % 8][lane / 8 % 2 * 8]);
      asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                   : "=r"(y[0]), "=r"(y[1])
                   : "r"(from));
      asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
                   "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                   : "+f"(sum[j][0]), "+f"(sum[j][1]), "+f"(sum[j][2]), "+f"(sum[j][3])
                   : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0] & 0x80078007u),
                     "r"(y[1] & 0x80078007u));
    }
    __syncthreads();
  }
  for (unsigned j = 0; j < 4; ++j)
    for (unsigned i = 0; i < 4; ++i) {
      unsigned row = warp * 16 + lane / 4 + i / 2 * 8, column = j * 8 + lane % 4 * 2 + i % 2;
      float plain = 0;
#pragma unroll 1
      for (unsigned l = 0; l < k; ++l)
        plain += small(a[row * k + l]) * small(b[column * k + l]);
      if (plain != sum[j][i])
        __trap();
      out[(blockIdx.y * tile + row) * n + blockIdx.x * tile + column] = sum[j][i];
    }
}
