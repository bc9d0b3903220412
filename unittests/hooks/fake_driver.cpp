// A library in place of libcuda.so: the functions that the driver-level hook looks up, and a record
// of the calls that reached them.
#include <cuda.h>

#include <cstdint>
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

/// Number of fills, and the stream and the value of the last fill.
int fakeDriverFills = 0;
unsigned fakeDriverFillValue = 0;
CUstream fakeDriverFillStream = nullptr;
CUresult fill(unsigned value, CUstream stream) {
  fakeDriverFillValue = value;
  fakeDriverFillStream = stream;
  ++fakeDriverFills;
  return CUDA_SUCCESS;
}
CUresult cuMemsetD8AsyncFake(CUdeviceptr, unsigned char value, size_t, CUstream stream) {
  return fill(value, stream);
}
CUresult cuMemsetD32AsyncFake(CUdeviceptr, unsigned value, size_t, CUstream stream) {
  return fill(value, stream);
}

CUcontext fakeDriverSynchronized = nullptr;
CUresult cuCtxSynchronizeFake() {
  fakeDriverSynchronized = nullptr;
  return CUDA_SUCCESS;
}
/// CUDA 13's form, which has the context as a parameter.
CUresult cuCtxSynchronize_v2(CUcontext context) {
  fakeDriverSynchronized = context;
  return CUDA_SUCCESS;
}

/// A kernel with an int at 0 and a double at 8. Launches here have a null context. Its CUkernel is
/// 0x78, which only cuKernelGetFunction and launches accept. The kernel 0x79 has the same
/// parameters, and runs in clusters of two blocks.
bool isKernelHandle(CUfunction function) {
  return reinterpret_cast<std::uintptr_t>(function) == 0x78;
}
CUresult cuKernelGetFunctionFake(CUfunction *function, CUkernel) {
  *function = reinterpret_cast<CUfunction>(std::uintptr_t{0x77});
  return CUDA_SUCCESS;
}
CUresult cuFuncGetParamInfoFake(CUfunction function, std::size_t index, std::size_t *offset,
                                std::size_t *size) {
  if (isKernelHandle(function))
    return CUDA_ERROR_INVALID_HANDLE;
  if (index > 1)
    return CUDA_ERROR_INVALID_VALUE;
  *offset = index * 8;
  *size = index == 0 ? sizeof(int) : sizeof(double);
  return CUDA_SUCCESS;
}
CUresult cuFuncGetAttributeFake(int *value, CUfunction_attribute attribute, CUfunction function) {
  if (isKernelHandle(function))
    return CUDA_ERROR_INVALID_HANDLE;
  bool isPaired = reinterpret_cast<std::uintptr_t>(function) == 0x79;
  switch (attribute) {
  case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    *value = 256;
    break;
  case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    *value = isPaired ? 2 : 0;
    break;
  case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
  case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
    *value = isPaired ? 1 : 0;
    break;
  default:
    *value = 1024;
  }
  return CUDA_SUCCESS;
}
CUresult cuCtxGetCurrentFake(CUcontext *context) {
  *context = nullptr;
  return CUDA_SUCCESS;
}

/// The configuration of the last cuLaunchKernelEx.
CUlaunchConfig fakeDriverConfig = {};
int fakeDriverInt = 0;
double fakeDriverDouble = 0;
CUresult cuLaunchKernelExFake(const CUlaunchConfig *config, CUfunction, void **parameters,
                              void **extra) {
  ++fakeDriverLaunches;
  fakeDriverConfig = *config;
  if (config->gridDimY > 65535)
    return CUDA_ERROR_INVALID_VALUE;
  auto *buffer = extra ? static_cast<char *>(extra[1]) : nullptr;
  std::memcpy(&fakeDriverInt, extra ? buffer : parameters[0], sizeof fakeDriverInt);
  std::memcpy(&fakeDriverDouble, extra ? buffer + 8 : parameters[1], sizeof fakeDriverDouble);
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
  else if (std::strcmp(symbol, "cuMemsetD8Async") == 0)
    *entry = reinterpret_cast<void *>(&cuMemsetD8AsyncFake);
  else if (std::strcmp(symbol, "cuMemsetD32Async") == 0)
    *entry = reinterpret_cast<void *>(&cuMemsetD32AsyncFake);
  else if (std::strcmp(symbol, "cuLaunchKernelEx") == 0)
    *entry = reinterpret_cast<void *>(&cuLaunchKernelExFake);
  else if (std::strcmp(symbol, "cuFuncGetParamInfo") == 0)
    *entry = reinterpret_cast<void *>(&cuFuncGetParamInfoFake);
  else if (std::strcmp(symbol, "cuKernelGetFunction") == 0)
    *entry = reinterpret_cast<void *>(&cuKernelGetFunctionFake);
  else if (std::strcmp(symbol, "cuFuncGetAttribute") == 0)
    *entry = reinterpret_cast<void *>(&cuFuncGetAttributeFake);
  else if (std::strcmp(symbol, "cuCtxGetCurrent") == 0)
    *entry = reinterpret_cast<void *>(&cuCtxGetCurrentFake);
  else if (std::strcmp(symbol, "cuCtxSynchronize") == 0)
    *entry = version >= 13000 ? reinterpret_cast<void *>(&cuCtxSynchronize_v2)
                              : reinterpret_cast<void *>(&cuCtxSynchronizeFake);
  else
    *entry = reinterpret_cast<void *>(&cuOtherFake);
  return CUDA_SUCCESS;
}
/// The function's address, which a lookup under the hooks does not return.
void *fakeDriverGetProcAddress = reinterpret_cast<void *>(&cuGetProcAddress_v2);
}
