// A matrix product by cuBLAS, which is available only in binary form: Tally counts its launches and
// knows their class, but cannot interrupt them.
#ifdef OUTSIDE_CUBLAS
#include "parts.h"

#include <cublas_v2.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace {

void check(cublasStatus_t status, const char *what) {
  if (status == CUBLAS_STATUS_SUCCESS)
    return;
  std::fprintf(stderr, "outside: %s: cuBLAS status %d\n", what, static_cast<int>(status));
  std::exit(2);
}

} // namespace

bool runGemm(int size) {
  cublasHandle_t handle;
  if (cublasStatus_t status = cublasCreate(&handle); status != CUBLAS_STATUS_SUCCESS) {
    // Without a GPU the emulator is the device; it runs kernels that have PTX, and cuBLAS has none.
    std::printf("skip   gemm        cuBLAS does not start here (status %d)\n",
                static_cast<int>(status));
    return true;
  }
  int n = std::min(size, 512);
  std::vector<float> a(n * n), b(n * n), c(n * n);
  for (int i = 0; i < n * n; ++i) {
    a[i] = static_cast<float>(i * 7u % 9) - 4; // small integers: the product is exact
    b[i] = static_cast<float>(i * 5u % 11) - 5;
  }
  std::size_t bytes = a.size() * sizeof(float);
  float *device[3];
  for (float *&each : device)
    CHECK(cudaMalloc(&each, bytes));
  CHECK(cudaMemcpy(device[0], a.data(), bytes, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(device[1], b.data(), bytes, cudaMemcpyHostToDevice));
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cublasSetStream(handle, stream));
  const float one = 1, zero = 0;
  CHECK(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, device[0], n, device[1], n,
                    &zero, device[2], n));
  CHECK(cudaMemcpyAsync(c.data(), device[2], bytes, cudaMemcpyDeviceToHost, stream));
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cublasDestroy(handle));
  CHECK(cudaStreamDestroy(stream));
  for (float *each : device)
    CHECK(cudaFree(each));

  double worst = 0;
  for (int column = 0; column < n; column += 3)
    for (int row = 0; row < n; row += 3) {
      double sum = 0;
      for (int k = 0; k < n; ++k)
        sum += double(a[k * n + row]) * b[column * n + k];
      worst = std::max(worst, std::fabs(sum - c[column * n + row]));
    }
  return report("gemm", std::to_string(n) + " squared by cuBLAS", worst, 0,
                hashOf(c.data(), bytes));
}
#endif
