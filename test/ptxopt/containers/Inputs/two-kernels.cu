// Two kernels, a constant and a device variable, which the variants must share with the kernels.
__constant__ float factors[4];
__device__ int launches;

__global__ void scale(float *values, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count)
    values[i] *= factors[0];
}

__global__ void addOne(int *values) {
  values[blockIdx.x] += 1;
  atomicAdd(&launches, 1);
}

#ifdef WITH_MAIN
int main() {
  scale<<<4, 32>>>(nullptr, 0);
  addOne<<<1, 1>>>(nullptr);
  return 0;
}
#endif
