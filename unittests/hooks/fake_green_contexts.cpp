// The driver's green contexts over the fake CUDA runtime; their streams are streams of the fake
// runtime.
#include "fake_cuda.h"

#include <cuda.h>

#include <string_view>
#include <utility>

namespace tally::test {

namespace {

CUresult getDevice(CUdevice *handle, int device) {
  *handle = device;
  return CUDA_SUCCESS;
}
CUresult getResource(CUdevice, CUdevResource *resource, CUdevResourceType) {
  resource->sm.smCount = 16;
  return CUDA_SUCCESS;
}
CUresult split(CUdevResource *part, unsigned *groups, const CUdevResource *all, CUdevResource *,
               unsigned, unsigned sms) {
  *part = *all;
  part->sm.smCount = sms;
  *groups = 1;
  return CUDA_SUCCESS;
}
CUresult describe(CUdevResourceDesc *description, CUdevResource *, unsigned) {
  *description = nullptr;
  return CUDA_SUCCESS;
}
CUresult createContext(CUgreenCtx *context, CUdevResourceDesc, CUdevice, unsigned) {
  auto number = static_cast<std::uintptr_t>(++FakeCuda::current().greenContexts);
  *context = reinterpret_cast<CUgreenCtx>(number);
  return CUDA_SUCCESS;
}
CUresult destroyContext(CUgreenCtx) {
  --FakeCuda::current().greenContexts;
  return CUDA_SUCCESS;
}
CUresult createStream(CUstream *stream, CUgreenCtx, unsigned, int priority) {
  return static_cast<CUresult>(FakeCuda::current().api().cudaStreamCreateWithPriority(
      stream, cudaStreamNonBlocking, priority));
}
CUresult destroyStream(CUstream stream) {
  return static_cast<CUresult>(FakeCuda::current().api().cudaStreamDestroy(stream));
}

} // namespace

void *greenContextEntry(const char *name) {
  const std::pair<std::string_view, void *> entries[] = {
      {"cuDeviceGet", reinterpret_cast<void *>(getDevice)},
      {"cuDeviceGetDevResource", reinterpret_cast<void *>(getResource)},
      {"cuDevSmResourceSplitByCount", reinterpret_cast<void *>(split)},
      {"cuDevResourceGenerateDesc", reinterpret_cast<void *>(describe)},
      {"cuGreenCtxCreate", reinterpret_cast<void *>(createContext)},
      {"cuGreenCtxStreamCreate", reinterpret_cast<void *>(createStream)},
      {"cuStreamDestroy", reinterpret_cast<void *>(destroyStream)},
      {"cuGreenCtxDestroy", reinterpret_cast<void *>(destroyContext)}};
  for (const auto &[known, entry] : entries)
    if (known == name)
      return entry;
  return nullptr;
}

} // namespace tally::test
