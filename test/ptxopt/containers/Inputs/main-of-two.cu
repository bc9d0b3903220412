// A program whose kernel reads a variable of another file (factor.cu): relocatable device code.
#include <cstdio>

extern __device__ int factor;

__global__ void twiceEach(int *values, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count)
    values[i] = factor * i;
}

int main() {
  constexpr int count = 1000;
  int *values;
  if (cudaMallocManaged(&values, count * sizeof(int)) != cudaSuccess)
    return 2;
  twiceEach<<<8, 128>>>(values, count);
  if (cudaDeviceSynchronize() != cudaSuccess)
    return 3;
  for (int i = 0; i < count; ++i)
    if (values[i] != 2 * i)
      return 4;
  std::puts("twice each");
  return 0;
}
