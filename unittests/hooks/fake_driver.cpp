// A library that stands for libcuda.so: what the driver-level hook looks for, and a record of what
// reached it.
#include <cuda.h>

#include <cstring>

extern "C" {

int fakeDriverLaunches = 0, fakeDriverCopies = 0;

__attribute__((visibility("default"))) CUresult cuLaunchKernelFake(CUfunction, unsigned, unsigned,
                                                                   unsigned, unsigned, unsigned,
                                                                   unsigned, unsigned, CUstream,
                                                                   void **, void **) {
  ++fakeDriverLaunches;
  return CUDA_SUCCESS;
}

CUresult cuMemcpyHtoDAsyncFake(CUdeviceptr, const void *, size_t, CUstream) {
  ++fakeDriverCopies;
  return CUDA_SUCCESS;
}

CUcontext fakeDriverSynchronized = nullptr;
CUresult cuCtxSynchronizeFake() {
  fakeDriverSynchronized = nullptr;
  return CUDA_SUCCESS;
}
/// CUDA 13's form, whose context is a parameter.
CUresult cuCtxSynchronize_v2(CUcontext context) {
  fakeDriverSynchronized = context;
  return CUDA_SUCCESS;
}

CUresult cuOtherFake() { return CUDA_SUCCESS; }

#undef cuGetProcAddress
CUresult cuGetProcAddress_v2(const char *symbol, void **entry, int version, cuuint64_t,
                             CUdriverProcAddressQueryResult *) {
  if (std::strcmp(symbol, "cuLaunchKernel") == 0)
    *entry = reinterpret_cast<void *>(&cuLaunchKernelFake);
  else if (std::strcmp(symbol, "cuMemcpyHtoDAsync") == 0)
    *entry = reinterpret_cast<void *>(&cuMemcpyHtoDAsyncFake);
  else if (std::strcmp(symbol, "cuCtxSynchronize") == 0)
    *entry = version >= 13000 ? reinterpret_cast<void *>(&cuCtxSynchronize_v2)
                              : reinterpret_cast<void *>(&cuCtxSynchronizeFake);
  else
    *entry = reinterpret_cast<void *>(&cuOtherFake);
  return CUDA_SUCCESS;
}
}
