// A library in place of libcuda.so.1, beside the emulator: it counts launches, and runs its one
// kernel on the host, in the order of the stream.
#include <cuda.h>

#include <atomic>
#include <cstring>

#undef cuGetProcAddress

extern "C" {

/// Calls `work(data)` after the stream's work; set by the module that knows the emulator.
void (*fakeDriverInOrder)(CUstream, void (*work)(void *), void *data) = nullptr;
std::atomic<int> fakeDriverLaunches{0};
}

namespace {

std::atomic<bool> isStarted{false};

struct Product {
  const float *a, *b;
  float *c;
  int count;
};

void multiply(void *data) {
  auto *product = static_cast<Product *>(data);
  for (int i = 0; i < product->count; ++i)
    product->c[i] = product->a[i] * product->b[i];
  delete product;
}

void *find(const char *name);

} // namespace

extern "C" {

CUresult cuInit(unsigned) {
  isStarted = true;
  return CUDA_SUCCESS;
}
CUresult cuCtxGetCurrent(CUcontext *context) {
  *context = nullptr;
  return isStarted ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

/// product(const float *a, const float *b, float *c, int count)
CUresult cuFuncGetParamInfo(CUfunction, std::size_t index, std::size_t *offset, std::size_t *size) {
  if (index > 3)
    return CUDA_ERROR_INVALID_VALUE;
  *offset = index * 8;
  *size = index == 3 ? sizeof(int) : sizeof(void *);
  return CUDA_SUCCESS;
}
CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction) {
  *value = attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024 : 0;
  return CUDA_SUCCESS;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction, void **parameters,
                          void **extra) {
  if (extra)
    return CUDA_ERROR_INVALID_VALUE;
  auto *product = new Product{};
  std::memcpy(&product->a, parameters[0], sizeof product->a);
  std::memcpy(&product->b, parameters[1], sizeof product->b);
  std::memcpy(&product->c, parameters[2], sizeof product->c);
  std::memcpy(&product->count, parameters[3], sizeof product->count);
  ++fakeDriverLaunches;
  if (fakeDriverInOrder)
    fakeDriverInOrder(config->hStream, &multiply, product);
  else
    multiply(product);
  return CUDA_SUCCESS;
}
CUresult cuLaunchKernel(CUfunction function, unsigned gridX, unsigned gridY, unsigned gridZ,
                        unsigned blockX, unsigned blockY, unsigned blockZ, unsigned shared,
                        CUstream stream, void **parameters, void **extra) {
  CUlaunchConfig config{};
  config.gridDimX = gridX;
  config.gridDimY = gridY;
  config.gridDimZ = gridZ;
  config.blockDimX = blockX;
  config.blockDimY = blockY;
  config.blockDimZ = blockZ;
  config.sharedMemBytes = shared;
  config.hStream = stream;
  return cuLaunchKernelEx(&config, function, parameters, extra);
}

CUresult cuGetProcAddress_v2(const char *symbol, void **entry, int, cuuint64_t,
                             CUdriverProcAddressQueryResult *) {
  *entry = find(symbol);
  return *entry ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
CUresult cuGetProcAddress(const char *symbol, void **entry, int version, cuuint64_t flags) {
  return cuGetProcAddress_v2(symbol, entry, version, flags, nullptr);
}
CUresult cuGetExportTable(const void **table, const CUuuid *) {
  static const std::size_t size = sizeof size;
  *table = &size;
  return CUDA_SUCCESS;
}
}

namespace {

void *find(const char *name) {
  const struct {
    const char *name;
    void *entry;
  } entries[] = {
      {"cuInit", reinterpret_cast<void *>(&cuInit)},
      {"cuCtxGetCurrent", reinterpret_cast<void *>(&cuCtxGetCurrent)},
      {"cuFuncGetParamInfo", reinterpret_cast<void *>(&cuFuncGetParamInfo)},
      {"cuFuncGetAttribute", reinterpret_cast<void *>(&cuFuncGetAttribute)},
      {"cuLaunchKernel", reinterpret_cast<void *>(&cuLaunchKernel)},
      {"cuLaunchKernelEx", reinterpret_cast<void *>(&cuLaunchKernelEx)},
      {"cuGetProcAddress", reinterpret_cast<void *>(&cuGetProcAddress_v2)},
      {"cuGetExportTable", reinterpret_cast<void *>(&cuGetExportTable)},
  };
  for (const auto &each : entries)
    if (std::strcmp(name, each.name) == 0)
      return each.entry;
  return nullptr;
}

} // namespace
