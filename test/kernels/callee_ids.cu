// Device functions that are not inlined and read the block's ids: in one, two and three dimensions,
// through another function, recursively, and in mutual recursion.
__device__ __noinline__ unsigned linear1() { return blockIdx.x; }
__device__ __noinline__ unsigned linear2() { return blockIdx.y * gridDim.x + linear1(); }
__device__ __noinline__ unsigned linear3() {
  return blockIdx.z * gridDim.y * gridDim.x + linear2();
}

__device__ __noinline__ unsigned place(unsigned block) { return block * blockDim.x + threadIdx.x; }

extern "C" __global__ void callee_1d(unsigned *out) { out[place(linear1())] = gridDim.x; }
extern "C" __global__ void callee_2d(unsigned *out) { out[place(linear2())] = threadIdx.x + 1; }
extern "C" __global__ void callee_3d(unsigned *out) {
  out[place(linear3())] = blockIdx.x + 100 * blockIdx.y + 10000 * blockIdx.z;
}

// Recursion: the deepest call reads the ids, while other threads have frames of other depths.
__device__ __noinline__ unsigned descend(unsigned depth, unsigned sum) {
  if (depth == 0)
    return sum * gridDim.x + blockIdx.x;
  unsigned below = descend(depth - 1, sum + depth);
  return below * 3 + depth;
}
extern "C" __global__ void callee_recursive(unsigned *out) {
  out[blockIdx.x * blockDim.x + threadIdx.x] = descend(threadIdx.x % 4, 1);
}

// Mutual recursion in which only one function reads an id.
__device__ unsigned odd(unsigned n, unsigned sum);
__device__ __noinline__ unsigned even(unsigned n, unsigned sum) {
  return n == 0 ? sum : odd(n - 1, sum * 5 + n);
}
__device__ __noinline__ unsigned odd(unsigned n, unsigned sum) {
  return n == 0 ? sum + 1 : even(n - 1, sum * 7 + blockIdx.y * 3 + gridDim.y);
}
extern "C" __global__ void callee_mutual(unsigned *out) {
  unsigned block = blockIdx.y * gridDim.x + blockIdx.x;
  out[block * blockDim.x + threadIdx.x] = even(threadIdx.x % 5, 1);
}

// A callee's early return, then a loop whose bound is the grid's.
__device__ __noinline__ unsigned spread(const unsigned *in, unsigned n) {
  if (threadIdx.x >= n)
    return 0;
  unsigned sum = 0;
  for (unsigned i = blockIdx.x; i < n; i += gridDim.x)
    sum += in[i];
  return sum;
}
extern "C" __global__ void callee_grid_stride(unsigned *out, const unsigned *in, unsigned n) {
  out[blockIdx.x * blockDim.x + threadIdx.x] = spread(in, n);
}
