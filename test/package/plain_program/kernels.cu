__global__ void addSquares(int *sum, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    atomicAdd(sum, i * i);
}

extern "C" int sumOfSquares(int n) {
  int *sum = nullptr, result = -1;
  cudaMalloc(&sum, sizeof *sum);
  cudaMemset(sum, 0, sizeof *sum);
  addSquares<<<(n + 31) / 32, 32>>>(sum, n);
  cudaMemcpy(&result, sum, sizeof result, cudaMemcpyDeviceToHost);
  cudaFree(sum);
  return result;
}
