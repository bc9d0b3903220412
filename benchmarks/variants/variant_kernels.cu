// Kernels that show the cost of variants: by the resource that bounds them, by their size, and by
// the parts that the rewriter changes. Each does the same work `rounds` times, so `rounds` sets the
// time of a block. The kernels write results only so that the compiler keeps their work.
extern "C" {

/// Arithmetic alone, few registers.
__global__ void __launch_bounds__(256) arithmetic(float *out, const float *, int rounds) {
  float a = threadIdx.x, b = blockIdx.x, c = 0.5f, d = 0.25f;
  for (int i = 0; i < rounds; ++i)
    for (int k = 0; k < 32; ++k) {
      a = fmaf(a, 0.999f, c);
      b = fmaf(b, 0.998f, d);
      c = fmaf(c, 0.997f, a);
      d = fmaf(d, 0.996f, b);
    }
  out[(blockIdx.x & 1023) * blockDim.x + threadIdx.x] = a + b + c + d;
}

/// Bound by memory: a block streams `rounds` times 16 bytes a thread from far more than the caches.
__global__ void __launch_bounds__(256) stream(float4 *out, const float4 *in, int rounds) {
  float4 sum{};
  for (int i = 0; i < rounds; ++i) {
    unsigned at = (blockIdx.x * (unsigned)rounds + i) * blockDim.x + threadIdx.x;
    float4 value = in[at & ((1u << 25) - 1)];
    sum.x += value.x;
    sum.y += value.y;
    sum.z += value.z;
    sum.w += value.w;
  }
  out[(blockIdx.x & 1023) * blockDim.x + threadIdx.x] = sum;
}

/// A tiled matrix product, 64 x 64 of C a block, in a 2D grid: barriers, shared memory, registers.
__global__ void __launch_bounds__(256) tiled_product(float *out, const float *in, int rounds) {
  __shared__ float left[16][64], right[16][64];
  float sums[4][4] = {};
  int x = threadIdx.x % 16, y = threadIdx.x / 16;
  for (int k = 0; k < rounds; ++k) {
    for (int i = threadIdx.x; i < 16 * 64; i += 256) {
      left[i / 64][i % 64] = in[((blockIdx.y * 16 + k) * 1024 + i) & 0xfffff];
      right[i / 64][i % 64] = in[((blockIdx.x * 16 + k) * 1024 + i) & 0xfffff];
    }
    __syncthreads();
    for (int i = 0; i < 16; ++i)
      for (int row = 0; row < 4; ++row)
        for (int column = 0; column < 4; ++column)
          sums[row][column] =
              fmaf(left[i][y * 4 + row], right[i][x * 4 + column], sums[row][column]);
    __syncthreads();
  }
  float total = 0;
  for (int row = 0; row < 4; ++row)
    for (int column = 0; column < 4; ++column)
      total += sums[row][column];
  out[((blockIdx.y * gridDim.x + blockIdx.x) & 1023) * blockDim.x + threadIdx.x] = total;
}

/// Attention of 128 queries over `rounds` tiles of 32 keys: barriers and shared memory, special
/// functions, many registers.
__global__ void __launch_bounds__(128) attention(float *out, const float *in, int rounds) {
  constexpr int dims = 32, tile = 32;
  __shared__ float keys[tile][dims], values[tile][dims];
  float query[dims], sums[dims] = {}, most = -1e30f, weights = 0;
  for (int d = 0; d < dims; ++d)
    query[d] = in[((blockIdx.x * 128 + threadIdx.x) * dims + d) & 0xfffff];
  for (int k = 0; k < rounds; ++k) {
    for (int i = threadIdx.x; i < tile * dims; i += 128) {
      keys[i / dims][i % dims] = in[(k * 2048 + i) & 0xfffff];
      values[i / dims][i % dims] = in[(k * 2048 + 1024 + i) & 0xfffff];
    }
    __syncthreads();
    for (int j = 0; j < tile; ++j) {
      float score = 0;
      for (int d = 0; d < dims; ++d)
        score = fmaf(query[d], keys[j][d], score);
      float now = fmaxf(most, score);
      float weight = __expf(score - now), correction = __expf(most - now);
      most = now;
      weights = fmaf(weights, correction, weight);
      for (int d = 0; d < dims; ++d)
        sums[d] = fmaf(sums[d], correction, weight * values[j][d]);
    }
    __syncthreads();
  }
  float total = 0;
  for (int d = 0; d < dims; ++d)
    total += sums[d] / weights;
  out[(blockIdx.x & 1023) * blockDim.x + threadIdx.x] = total;
}

/// Sums over a block by shuffles and shared memory, once a round.
__global__ void __launch_bounds__(512) reduction(float *out, const float *in, int rounds) {
  __shared__ float partial[16];
  float total = 0;
  for (int i = 0; i < rounds; ++i) {
    float value = in[((blockIdx.x + i) * blockDim.x + threadIdx.x) & 0xfffff];
    for (int offset = 16; offset > 0; offset /= 2)
      value += __shfl_down_sync(~0u, value, offset);
    if (threadIdx.x % 32 == 0)
      partial[threadIdx.x / 32] = value;
    __syncthreads();
    for (int k = 0; k < 16; ++k)
      total += partial[k];
    __syncthreads();
  }
  out[(blockIdx.x & 1023) * blockDim.x + threadIdx.x] = total;
}

/// Threads of every block's last half-warp leave before the barriers of the others.
__global__ void __launch_bounds__(256) early_exit(float *out, const float *in, int rounds) {
  __shared__ float tile[256];
  if (in[threadIdx.x] < 0 || threadIdx.x >= 240)
    return;
  float value = threadIdx.x;
  for (int i = 0; i < rounds; ++i) {
    tile[threadIdx.x] = value;
    __syncthreads();
    for (int k = 0; k < 16; ++k)
      value = fmaf(tile[(threadIdx.x + k) % 240], 0.999f, value);
    __syncthreads();
  }
  out[(blockIdx.x & 1023) * blockDim.x + threadIdx.x] = value;
}

/// Blocks of 1,024 threads in a 3D grid.
__global__ void __launch_bounds__(1024) wide_block(float *out, const float *in, int rounds) {
  unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  float value = in[(block * blockDim.x + threadIdx.x) & 0xfffff];
  for (int i = 0; i < rounds; ++i)
    for (int k = 0; k < 16; ++k)
      value = fmaf(value, 0.999f, 0.5f * (float)(gridDim.x - blockIdx.x));
  out[(block & 1023) * blockDim.x + threadIdx.x] = value;
}
}
