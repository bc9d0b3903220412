// Turnstiles: blocks that add to one tile take turns by a word that holds the next block's number,
// as in split-K matrix products. The sums do not commute, so a turn out of order shows.
__device__ int acquired(const int *word) {
  int value;
  asm volatile("ld.global.acquire.gpu.b32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
}
__device__ void release(int *word, int value) {
  asm volatile("st.global.release.gpu.b32 [%0], %1;" : : "l"(word), "r"(value) : "memory");
}
// All threads test the word that the first thread read; the last block resets the word.
extern "C" __global__ void turnstile_depth(unsigned *out, const unsigned *in, int *words) {
  int tile = blockIdx.y * gridDim.x + blockIdx.x, turn = blockIdx.z, state = -1;
  int *word = words + tile;
  if (threadIdx.x == 0)
    state = acquired(word);
  while (__syncthreads_and(state != turn))
    if (threadIdx.x == 0)
      state = acquired(word);
  __syncthreads();
  unsigned at = tile * blockDim.x + threadIdx.x;
  out[at] = out[at] * 3 + in[at] + turn;
  __syncthreads();
  if (threadIdx.x == 0)
    release(word, turn + 1 == gridDim.z ? 0 : turn + 1);
}
// The first thread polls alone, and the other threads wait for it.
extern "C" __global__ void turnstile_alone(unsigned *out, const unsigned *in, int *words) {
  int tile = blockIdx.y * gridDim.x + blockIdx.x;
  if (threadIdx.x == 0)
    while (*(volatile int *)(words + tile) != blockIdx.z)
      __nanosleep(20);
  __syncthreads();
  unsigned at = tile * blockDim.x + threadIdx.x;
  out[at] = out[at] * 3 + in[at] + blockIdx.z;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0)
    *(volatile int *)(words + tile) = blockIdx.z + 1;
}
// Turns by y: sound in grids without depth.
extern "C" __global__ void turnstile_rows(unsigned *out, const unsigned *in, int *words) {
  int turn = blockIdx.y, state = -1;
  while (__syncthreads_or(state == turn) == 0)
    if (threadIdx.x == 0)
      state = acquired(words + blockIdx.x);
  unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
  out[at] = out[at] * 3 + in[at] + turn;
  __syncthreads();
  if (threadIdx.x == 0)
    release(words + blockIdx.x, turn + 1);
}
// Kernels that the analysis refuses, each for one detail. Waits for the next block.
extern "C" __global__ void turnstile_ahead(unsigned *out, int *words) {
  while (acquired(words + blockIdx.x) != blockIdx.z + 1 && blockIdx.z + 1 < gridDim.z) {
  }
  out[blockIdx.z * gridDim.x + blockIdx.x] = blockIdx.z;
  release(words + blockIdx.x, blockIdx.z + 1);
}
// From the last block to the first.
extern "C" __global__ void turnstile_descending(unsigned *out, int *words) {
  int turn = gridDim.z - 1 - blockIdx.z;
  while (acquired(words + blockIdx.x) != turn) {
  }
  out[turn * gridDim.x + blockIdx.x] = turn;
  release(words + blockIdx.x, turn + 1);
}
// Passes two turns on.
extern "C" __global__ void turnstile_skipping(unsigned *out, int *words) {
  while (acquired(words + blockIdx.x) != blockIdx.z) {
  }
  out[blockIdx.z * gridDim.x + blockIdx.x] = blockIdx.z;
  release(words + blockIdx.x, blockIdx.z + 2);
}
// The turn comes from memory.
extern "C" __global__ void turnstile_loaded(unsigned *out, int *words, const int *turns) {
  int turn = turns[blockIdx.z];
  while (acquired(words + blockIdx.x) != turn) {
  }
  out[turn * gridDim.x + blockIdx.x] = turn;
  release(words + blockIdx.x, turn + 1);
}
// Leaves the loop when it is not the block's turn.
extern "C" __global__ void turnstile_inverted(unsigned *out, int *words) {
  while (acquired(words + blockIdx.x) == blockIdx.z) {
  }
  out[blockIdx.z * gridDim.x + blockIdx.x] = blockIdx.z;
  release(words + blockIdx.x, blockIdx.z + 1);
}
// Another plain store to the words.
extern "C" __global__ void turnstile_stray(unsigned *out, int *words) {
  if (blockIdx.z + 1 == gridDim.z)
    words[blockIdx.x] = 0x40 & out[0];
  while (acquired(words + blockIdx.x) != blockIdx.z) {
  }
  out[blockIdx.z * gridDim.x + blockIdx.x] = blockIdx.z;
  release(words + blockIdx.x, blockIdx.z + 1);
}
// A called function stores to the word: it releases the turn too early.
__device__ __noinline__ void openTurn(int *word, int turn) { *word = turn; }
extern "C" __global__ void turnstile_called(unsigned *out, int *words) {
  openTurn(words + blockIdx.x + gridDim.x, blockIdx.z - 1);
  while (acquired(words + blockIdx.x) != blockIdx.z) {
  }
  out[blockIdx.z * gridDim.x + blockIdx.x] = blockIdx.z;
}
