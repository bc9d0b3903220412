// Long blocks whose threads work together: a block that goes on elsewhere needs the same state.
extern "C" {

/// Barriers in the loop, static shared memory, tiles of both kinds of lanes.
__global__ void checkpoint_tiles(unsigned *out, const unsigned *in, int tiles) {
  __shared__ unsigned tile[64];
  __shared__ unsigned short halves[33];
  unsigned sum = threadIdx.x;
  if (threadIdx.x < 33)
    halves[threadIdx.x] = static_cast<unsigned short>(threadIdx.x * 3);
  for (int i = 0; i < tiles; ++i) {
    tile[threadIdx.x] = in[(blockIdx.x * tiles + i) * blockDim.x + threadIdx.x];
    __syncthreads();
    sum = sum * 5 + tile[blockDim.x - 1 - threadIdx.x] + halves[(threadIdx.x + i) % 33];
    __syncthreads();
    if (threadIdx.x == i % 33)
      halves[i % 33] += static_cast<unsigned short>(sum);
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

/// Dynamic shared memory of an odd size, beside static shared memory.
__global__ void checkpoint_dynamic(unsigned *out, int bytes, int rounds) {
  extern __shared__ unsigned char pool[];
  __shared__ unsigned total;
  for (int i = threadIdx.x; i < bytes; i += blockDim.x)
    pool[i] = static_cast<unsigned char>(blockIdx.x * 7 + i);
  if (threadIdx.x == 0)
    total = 0;
  __syncthreads();
  for (int round = 0; round < rounds; ++round) {
    int at = (threadIdx.x + round * 5) % bytes;
    atomicAdd(&total, pool[at] * (round + 1));
    __syncthreads();
    pool[(at * 3) % bytes] ^= 0; // the value stays the same
    if (threadIdx.x == 0)
      pool[round % bytes] += static_cast<unsigned char>(total);
    __syncthreads();
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = total + pool[threadIdx.x % bytes];
}

/// A loop without barriers between loops with them: several points, and a warp's sum.
__global__ void checkpoint_phases(unsigned *out, const unsigned *in, int n) {
  __shared__ unsigned part[64];
  unsigned value = in[blockIdx.x * blockDim.x + threadIdx.x];
  for (int i = 0; i < n; ++i) {
    part[threadIdx.x] = value + i;
    __syncthreads();
    value += part[(threadIdx.x + 1) % 64];
    __syncthreads();
  }
  for (int i = 0; i < n; ++i) {
    value = value * 1664525u + 1013904223u;
    value ^= __shfl_xor_sync(0xffffffffu, value, 1 << (i % 5));
  }
  for (int i = 0; i < n; ++i) {
    part[(threadIdx.x + i) % 64] = value;
    __syncthreads();
    value += part[threadIdx.x];
    __syncthreads();
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = value;
}

/// Nested loops; only the inner one has a barrier, and some turns skip it.
__global__ void checkpoint_nested(unsigned *out, const unsigned *in, int n) {
  __shared__ unsigned box[64];
  unsigned value = threadIdx.x;
  for (int i = 0; i < n; ++i) {
#pragma unroll 1
    for (int k = 0; k < (i * 2 + 1) % 5; ++k) {
      box[threadIdx.x] = value + k;
      __syncthreads();
      value = value * 3 + box[(threadIdx.x + 1) % blockDim.x];
      __syncthreads();
    }
    value += in[(blockIdx.x + i) % 64];
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = value;
}

/// Some threads stop working, but still execute the barriers.
__global__ void checkpoint_reduce(unsigned *out, const unsigned *in, int rounds) {
  __shared__ unsigned sums[64];
  unsigned total = 0;
  for (int round = 0; round < rounds; ++round) {
    sums[threadIdx.x] = in[(round * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x];
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
      if (threadIdx.x < half)
        sums[threadIdx.x] += sums[threadIdx.x + half];
      __syncthreads();
    }
    total = total * 3 + sums[0];
    __syncthreads();
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = total + threadIdx.x;
}
}
