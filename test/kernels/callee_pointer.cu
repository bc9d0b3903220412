// Calls through pointers to functions that read the block's ids and to others that do not: a table,
// a virtual function, a pointer that differs within a warp, and a conditional call.
typedef unsigned (*Operation)(unsigned);
__device__ __noinline__ unsigned plain(unsigned a) { return a * 3 + 1; }
__device__ __noinline__ unsigned column(unsigned a) { return a + 1000 * blockIdx.x; }
__device__ __noinline__ unsigned row(unsigned a) { return a + 100 * blockIdx.y + gridDim.x; }
__device__ Operation table[3] = {plain, column, row};

__device__ unsigned here() {
  return (blockIdx.y * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x;
}

extern "C" __global__ void pointer_table(unsigned *out, unsigned first) {
  out[here()] = table[(first + blockIdx.x) % 3](threadIdx.x);
}
extern "C" __global__ void pointer_divergent(unsigned *out) {
  out[here()] = table[threadIdx.x % 3](threadIdx.x);
}
extern "C" __global__ void pointer_condition(unsigned *out, unsigned limit) {
  unsigned value = 7;
  if (threadIdx.x < limit)
    value = table[blockIdx.x % 3](threadIdx.x) + table[(blockIdx.y + threadIdx.x) % 3](value);
  out[here()] = value;
}

struct Shape {
  unsigned size;
  __device__ virtual unsigned area(unsigned scale) const { return scale; }
};
struct Square : Shape {
  __device__ __noinline__ unsigned area(unsigned scale) const override {
    return size * size * scale + blockIdx.x;
  }
};
struct Strip : Shape {
  __device__ __noinline__ unsigned area(unsigned scale) const override {
    return size * gridDim.y * scale;
  }
};
extern "C" __global__ void pointer_virtual(unsigned *out) {
  Square square;
  Strip strip;
  square.size = threadIdx.x;
  strip.size = blockIdx.y + 2;
  const Shape *shape = &square;
  if ((threadIdx.x + blockIdx.x) % 2)
    shape = &strip;
  out[here()] = shape->area(5);
}

// A recursion through a pointer from a table in memory.
struct Step;
typedef unsigned (*Walk)(const Step *, unsigned);
struct Step {
  Walk next;
};
__device__ unsigned walkOn(const Step *steps, unsigned depth);
__device__ unsigned walkEnd(const Step *steps, unsigned depth);
__device__ const Step walks[2] = {{walkOn}, {walkEnd}};
__device__ __noinline__ unsigned walkOn(const Step *steps, unsigned depth) {
  return 3 * steps[depth == 0].next(steps, depth - 1) + blockIdx.x;
}
__device__ __noinline__ unsigned walkEnd(const Step *, unsigned) { return gridDim.x; }
extern "C" __global__ void pointer_recursive(unsigned *out) {
  out[here()] = walks[threadIdx.x % 2].next(walks, threadIdx.x % 5);
}
