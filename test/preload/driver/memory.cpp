// Allocations, and the attributes of a pointer.
#include "driver.h"

#include "emulated_cuda/memory.h"

#include <optional>

namespace tally::preload_driver {

namespace {

using hooks::emulated::Allocation;
using hooks::emulated::Context;
using hooks::emulated::Memory;
using hooks::emulated::MemoryKind;

/// Returns the allocation around an address; a module's variables count.
std::optional<Allocation> allocationAt(CUdeviceptr address) {
  if (Allocation known = Memory::get().find(pointerOf(address)); known.bytes != 0)
    return known;
  auto usable = Context::get().device()->machine().allocationAt(address);
  if (!usable)
    return std::nullopt;
  return Allocation{reinterpret_cast<std::uintptr_t>(usable->data()), usable->size(),
                    MemoryKind::Device};
}

/// The memory that `allocate(pointer)` allocates belongs to the current context.
template <class Result, class Allocate>
cudaError_t allocated(Result *result, std::size_t bytes, Allocate allocate) {
  if (!result || bytes == 0)
    return cudaErrorInvalidValue;
  void *pointer = nullptr;
  cudaError_t error = allocate(&pointer);
  if (error != cudaSuccess)
    return error;
  setOwner(pointer, currentContext());
  if constexpr (std::is_pointer_v<Result>)
    *result = pointer;
  else
    *result = reinterpret_cast<CUdeviceptr>(pointer);
  return cudaSuccess;
}

cudaError_t freed(void *pointer, cudaError_t (*release)(void *)) {
  cudaError_t error = release(pointer);
  if (error == cudaSuccess)
    forgetOwner(pointer);
  return error;
}

cudaError_t freedInOrder(CUdeviceptr pointer, CUstream stream) {
  return pointer ? runtime().cudaFreeAsync(pointerOf(pointer), stream) : cudaErrorInvalidValue;
}

bool isHost(const Allocation &allocation) {
  return allocation.kind == MemoryKind::Pinned || allocation.kind == MemoryKind::Registered;
}

/// Writes one attribute; the default value for memory that is not CUDA's (null).
CUresult attributeOf(const Allocation *allocation, CUpointer_attribute attribute,
                     CUdeviceptr pointer, void *result) {
  auto give = [&]<class Value>(Value value) {
    *static_cast<Value *>(result) = allocation ? value : Value{};
    return CUDA_SUCCESS;
  };
  Allocation known = allocation ? *allocation : Allocation{};
  switch (attribute) {
  case CU_POINTER_ATTRIBUTE_CONTEXT:
    return give(allocation ? ownerOf(pointerOf(known.begin)) : nullptr);
  case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    return give(static_cast<unsigned>(isHost(known) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE));
  case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    return give(pointer);
  case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    if (allocation && known.kind == MemoryKind::Device) {
      give(static_cast<void *>(nullptr));
      return CUDA_ERROR_INVALID_VALUE;
    }
    return give(pointerOf(pointer));
  case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    return give(static_cast<unsigned>(known.kind == MemoryKind::Managed));
  case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    return give(0);
  case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    return give(CUdeviceptr{known.begin});
  case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    return give(std::size_t{known.bytes});
  case CU_POINTER_ATTRIBUTE_MAPPED:
    return give(1u);
  default:
    return CUDA_ERROR_NOT_SUPPORTED;
  }
}

} // namespace

} // namespace tally::preload_driver

using namespace tally::preload_driver;

extern "C" {

CUresult cuMemAlloc_v2(CUdeviceptr *result, size_t bytes) {
  return inContext([&] {
    return allocated(result, bytes, [&](void **to) { return runtime().cudaMalloc(to, bytes); });
  });
}

CUresult cuMemAllocManaged(CUdeviceptr *result, size_t bytes, unsigned flags) {
  return inContext([&] {
    return allocated(result, bytes,
                     [&](void **to) { return runtime().cudaMallocManaged(to, bytes, flags); });
  });
}

CUresult cuMemAllocHost_v2(void **result, size_t bytes) {
  return inContext([&] {
    return allocated(result, bytes, [&](void **to) { return runtime().cudaMallocHost(to, bytes); });
  });
}

CUresult cuMemHostAlloc(void **result, size_t bytes, unsigned flags) {
  constexpr unsigned known =
      CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
  return inContext([&] {
    return allocated(result, flags & ~known ? 0 : bytes,
                     [&](void **to) { return runtime().cudaHostAlloc(to, bytes, flags); });
  });
}

CUresult cuMemFree_v2(CUdeviceptr pointer) {
  return inContext([&] { return freed(pointerOf(pointer), runtime().cudaFree); });
}
CUresult cuMemFreeHost(void *pointer) {
  return inContext([&] { return freed(pointer, runtime().cudaFreeHost); });
}

CUresult cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned flags) {
  return inContext([&] {
    cudaError_t error = runtime().cudaHostRegister(pointer, bytes, flags);
    if (error == cudaSuccess)
      setOwner(pointer, currentContext());
    return error;
  });
}
CUresult cuMemHostUnregister(void *pointer) {
  return inContext([&] { return freed(pointer, runtime().cudaHostUnregister); });
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *result, void *host, unsigned flags) {
  return inContext([&] {
    void *pointer = nullptr;
    cudaError_t error = runtime().cudaHostGetDevicePointer(&pointer, host, flags);
    if (error == cudaSuccess && result)
      *result = reinterpret_cast<CUdeviceptr>(pointer);
    return result ? error : cudaErrorInvalidValue;
  });
}

CUresult cuMemGetInfo_v2(size_t *free, size_t *total) {
  return inContext([&] { return runtime().cudaMemGetInfo(free, total); });
}

// Memory in stream order
// ---------------------------------------------------------------------------

TALLY_STREAM_FORMS(cuMemAllocAsync, (CUdeviceptr * result, size_t bytes, CUstream stream),
                   allocated(result, bytes, [&](void **to) {
                     return runtime().cudaMallocAsync(to, bytes, stream);
                   }))
TALLY_STREAM_FORMS(cuMemFreeAsync, (CUdeviceptr pointer, CUstream stream),
                   freedInOrder(pointer, stream))

// Pointers ----------------------------------------------------------------------------------------

CUresult cuMemGetAddressRange_v2(CUdeviceptr *begin, size_t *bytes, CUdeviceptr pointer) {
  return inContext([&] {
    auto allocation = allocationAt(pointer);
    if (!allocation)
      return CUDA_ERROR_NOT_FOUND;
    if (begin)
      *begin = allocation->begin;
    if (bytes)
      *bytes = allocation->bytes;
    return CUDA_SUCCESS;
  });
}

CUresult cuPointerGetAttribute(void *result, CUpointer_attribute attribute, CUdeviceptr pointer) {
  return started([&] {
    auto allocation = allocationAt(pointer);
    if (!result || !allocation)
      return CUDA_ERROR_INVALID_VALUE;
    return attributeOf(&*allocation, attribute, pointer, result);
  });
}

CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute *attributes, void **results,
                                CUdeviceptr pointer) {
  return started([&] {
    if (!attributes || !results)
      return CUDA_ERROR_INVALID_VALUE;
    auto allocation = allocationAt(pointer);
    for (unsigned i = 0; i < count; ++i) {
      CUresult error =
          attributeOf(allocation ? &*allocation : nullptr, attributes[i], pointer, results[i]);
      // Fields that a kind of memory lacks are null here.
      if (error != CUDA_SUCCESS && error != CUDA_ERROR_INVALID_VALUE)
        return error;
    }
    return CUDA_SUCCESS;
  });
}

} // extern "C"
