// Poll sites in nested loops: a block that goes on at an inner site passes the heads of the outer
// loops.
extern "C" {

/// Three nested loops, two of them side by side. `before` is set in a turn of the outermost loop
/// and read behind the inner ones; `next` is read only as a turn begins, so that it is not live in
/// them; `sum` is begun anew in each turn.
__global__ void checkpoint_deep(unsigned *out, const unsigned *in, int n) {
  __shared__ unsigned box[64];
  unsigned value = threadIdx.x, next = in[threadIdx.x];
#pragma unroll 1
  for (int i = 0; i < n; ++i) {
    unsigned before = value * 7 + next, sum = i;
#pragma unroll 1
    for (int k = 0; k < 2 + (i & 1); ++k) {
      box[threadIdx.x] = value + k;
      __syncthreads();
      sum = sum * 3 + box[(threadIdx.x + 1) % blockDim.x];
      __syncthreads();
#pragma unroll 1
      for (int j = k; j < 4; ++j) {
        value = value * 1664525u + sum;
        value ^= __shfl_xor_sync(0xffffffffu, value, 1 << j);
      }
    }
#pragma unroll 1
    for (int k = 0; k < n - i; ++k) {
      value = value * 5 + __shfl_down_sync(0xffffffffu, sum, k & 31);
      sum += 3;
    }
    next = in[(value + before) % 64];
    value += before ^ sum;
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = value + next;
}

/// The same for threads that stop independently.
__global__ void checkpoint_deep_threads(unsigned *out, const unsigned *in, int n) {
  unsigned value = threadIdx.x, next = in[threadIdx.x % 64];
#pragma unroll 1
  for (int i = 0; i < n; ++i) {
    unsigned before = value * 7 + next, sum = i;
#pragma unroll 1
    for (unsigned k = 0; k < value % 4; ++k) {
      sum = sum * 3 + k;
#pragma unroll 1
      for (unsigned j = k; j < 1 + threadIdx.x % 3; ++j)
        value = value * 1664525u + sum;
    }
#pragma unroll 1
    for (int k = 0; k < n - i; ++k)
      value = value * 5 + (sum += 3);
    next = in[(value + before) % 64];
    value += before ^ sum;
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = value + next;
}
}
