// The product of two square matrices with constant elements, by cuBLAS.
#include <cublas_v2.h>

extern "C" int product(cudaStream_t stream, const float *a, const float *b, float *c, int count) {
  static cublasHandle_t handle = nullptr;
  if (!handle && cublasCreate(&handle) != CUBLAS_STATUS_SUCCESS)
    return 1;
  int n = 1;
  while (n * n < count)
    n *= 2;
  float scale = 1.0f / static_cast<float>(n), zero = 0;
  return cublasSetStream(handle, stream) != CUBLAS_STATUS_SUCCESS ||
         cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &scale, a, n, b, n, &zero, c, n) !=
             CUBLAS_STATUS_SUCCESS;
}
