// The product of each element: a cuFFT transform and its inverse, then a kernel of a library that
// is not enabled.
#include <cufft.h>

__global__ void scale(const float *b, float *c, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count)
    c[i] = rintf(c[i] / count) * b[i];
}

extern "C" int product(cudaStream_t stream, const float *a, const float *b, float *c, int count) {
  static cufftHandle there = 0, back = 0;
  static cufftComplex *between = nullptr;
  if (!between && (cufftPlan1d(&there, count, CUFFT_R2C, 1) != CUFFT_SUCCESS ||
                   cufftPlan1d(&back, count, CUFFT_C2R, 1) != CUFFT_SUCCESS ||
                   cudaMalloc(&between, (count / 2 + 1) * sizeof *between) != cudaSuccess))
    return 1;
  if (cufftSetStream(there, stream) != CUFFT_SUCCESS ||
      cufftSetStream(back, stream) != CUFFT_SUCCESS ||
      cufftExecR2C(there, const_cast<float *>(a), between) != CUFFT_SUCCESS ||
      cufftExecC2R(back, between, c) != CUFFT_SUCCESS)
    return 1;
  scale<<<(count + 255) / 256, 256, 0, stream>>>(b, c, count);
  return cudaGetLastError() != cudaSuccess;
}
