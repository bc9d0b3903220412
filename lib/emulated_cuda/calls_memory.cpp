// Allocation of memory of all kinds, and queries of pointers.
#include "calls.h"
#include "memory.h"
#include "streams.h"

namespace tally::hooks::emulated {

namespace {

cudaError_t allocated(std::size_t bytes, MemoryKind kind, unsigned flags, void **result) {
  return served([&](runtime::EmulatorDevice &) {
    return Memory::get().allocate(bytes, kind, flags, result);
  });
}

/// Frees after all work is over, as cudaFree does.
template <class Release> cudaError_t releasedWhenIdle(Release release) {
  return served([&](runtime::EmulatorDevice &device) {
    auto idle = Streams::get().synchronizeAll(device);
    return idle ? release() : Context::get().meaning(idle);
  });
}

constexpr std::size_t pitchAlignment = 512;
std::size_t pitchOf(std::size_t width) {
  return (width + pitchAlignment - 1) / pitchAlignment * pitchAlignment;
}

} // namespace

cudaError_t Calls::cudaMalloc(void **result, size_t bytes) {
  return allocated(bytes, MemoryKind::Device, 0, result);
}

cudaError_t Calls::cudaMallocManaged(void **result, size_t bytes, unsigned flags) {
  if (bytes == 0 || (flags != cudaMemAttachGlobal && flags != cudaMemAttachHost))
    return remember(cudaErrorInvalidValue);
  return allocated(bytes, MemoryKind::Managed, flags, result);
}

cudaError_t Calls::cudaMallocHost(void **result, size_t bytes) {
  return allocated(bytes, MemoryKind::Pinned, 0, result);
}

cudaError_t Calls::cudaHostAlloc(void **result, size_t bytes, unsigned flags) {
  return allocated(bytes, MemoryKind::Pinned, flags, result);
}

cudaError_t Calls::cudaFree(void *pointer) {
  return releasedWhenIdle(
      [&] { return Memory::get().release(pointer, MemoryKind::Device, MemoryKind::Managed); });
}

cudaError_t Calls::cudaFreeHost(void *pointer) {
  return releasedWhenIdle(
      [&] { return Memory::get().release(pointer, MemoryKind::Pinned, MemoryKind::Pinned); });
}

cudaError_t Calls::cudaHostRegister(void *pointer, size_t bytes, unsigned flags) {
  return served(
      [&](runtime::EmulatorDevice &) { return Memory::get().adopt(pointer, bytes, flags); });
}

cudaError_t Calls::cudaHostUnregister(void *pointer) {
  return releasedWhenIdle([&] { return Memory::get().abandon(pointer); });
}

cudaError_t Calls::cudaHostGetDevicePointer(void **result, void *host, unsigned flags) {
  return served([&](runtime::EmulatorDevice &) {
    Allocation found = Memory::get().find(host);
    bool isHost = found.kind == MemoryKind::Pinned || found.kind == MemoryKind::Registered;
    if (!result || flags != 0 || found.bytes == 0 || !isHost)
      return cudaErrorInvalidValue;
    *result = host;
    return cudaSuccess;
  });
}

cudaError_t Calls::cudaHostGetFlags(unsigned *flags, void *host) {
  return served([&](runtime::EmulatorDevice &) {
    Allocation found = Memory::get().find(host);
    if (found.bytes == 0)
      return cudaErrorInvalidValue;
    *flags = found.flags | cudaHostAllocMapped; // as CUDA reports with unified addresses
    return cudaSuccess;
  });
}

cudaError_t Calls::cudaMallocPitch(void **result, size_t *pitch, size_t width, size_t height) {
  if (!pitch)
    return remember(cudaErrorInvalidValue);
  *pitch = pitchOf(width);
  return allocated(*pitch * height, MemoryKind::Device, 0, result);
}

cudaError_t Calls::cudaMalloc3D(cudaPitchedPtr *result, cudaExtent extent) {
  if (!result)
    return remember(cudaErrorInvalidValue);
  result->pitch = pitchOf(extent.width);
  result->xsize = extent.width;
  result->ysize = extent.height;
  return allocated(result->pitch * extent.height * extent.depth, MemoryKind::Device, 0,
                   &result->ptr);
}

cudaError_t Calls::cudaMemGetInfo(size_t *free, size_t *total) {
  return served([&](runtime::EmulatorDevice &) {
    *total = Memory::get().total();
    *free = *total - Memory::get().used();
    return cudaSuccess;
  });
}

cudaError_t Calls::cudaPointerGetAttributes(cudaPointerAttributes *attributes,
                                            const void *pointer) {
  return served([&](runtime::EmulatorDevice &device) {
    *attributes = {};
    auto *address = const_cast<void *>(pointer);
    Allocation found = Memory::get().find(pointer);
    bool isDevice = device.machine().allocationAt(reinterpret_cast<std::uintptr_t>(pointer)) &&
                    (found.bytes == 0 || found.kind == MemoryKind::Device);
    attributes->device = 0;
    attributes->devicePointer = address;
    if (isDevice) { // also for a variable of a module
      attributes->type = cudaMemoryTypeDevice;
      return cudaSuccess;
    }
    attributes->hostPointer = address;
    attributes->type = found.bytes == 0                    ? cudaMemoryTypeUnregistered
                       : found.kind == MemoryKind::Managed ? cudaMemoryTypeManaged
                                                           : cudaMemoryTypeHost;
    if (found.bytes == 0) {
      attributes->device = cudaInvalidDeviceId;
      attributes->devicePointer = nullptr;
    }
    return cudaSuccess;
  });
}

// Arrays ------------------------------------------------------------------------------------------

cudaError_t Calls::cudaMalloc3DArray(cudaArray_t *result, const cudaChannelFormatDesc *format,
                                     cudaExtent extent, unsigned flags) {
  return served([&](runtime::EmulatorDevice &) {
    if (!result || !format || extent.width == 0)
      return cudaErrorInvalidValue;
    auto array = std::make_unique<Array>();
    array->format = *format;
    array->extent = extent;
    array->flags = flags;
    array->elementBytes =
        static_cast<std::size_t>(format->x + format->y + format->z + format->w) / 8;
    void *memory = nullptr;
    cudaError_t error = Memory::get().allocate(array->pitch() * array->rows() * array->slices(),
                                               MemoryKind::Device, 0, &memory);
    if (error != cudaSuccess)
      return error;
    array->memory = reinterpret_cast<std::uintptr_t>(memory);
    *result = reinterpret_cast<cudaArray_t>(array.release()); // freed by cudaFreeArray
    return cudaSuccess;
  });
}

cudaError_t Calls::cudaMallocArray(cudaArray_t *result, const cudaChannelFormatDesc *format,
                                   size_t width, size_t height, unsigned flags) {
  return cudaMalloc3DArray(result, format, cudaExtent{width, height, 0}, flags);
}

cudaError_t Calls::cudaFreeArray(cudaArray_t handle) {
  if (!handle)
    return cudaSuccess;
  return releasedWhenIdle([&] {
    std::unique_ptr<Array> array(reinterpret_cast<Array *>(handle));
    return Memory::get().release(hostPointer(array->memory), MemoryKind::Device,
                                 MemoryKind::Device);
  });
}

cudaError_t Calls::cudaArrayGetInfo(cudaChannelFormatDesc *format, cudaExtent *extent,
                                    unsigned *flags, cudaArray_t handle) {
  if (!handle)
    return remember(cudaErrorInvalidResourceHandle);
  const auto &array = *reinterpret_cast<const Array *>(handle);
  if (format)
    *format = array.format;
  if (extent)
    *extent = array.extent;
  if (flags)
    *flags = array.flags;
  return cudaSuccess;
}

cudaError_t Calls::cudaGetChannelDesc(cudaChannelFormatDesc *format, cudaArray_const_t handle) {
  if (!format || !handle)
    return remember(cudaErrorInvalidValue);
  *format = reinterpret_cast<const Array *>(handle)->format;
  return cudaSuccess;
}

cudaChannelFormatDesc Calls::cudaCreateChannelDesc(int x, int y, int z, int w,
                                                   cudaChannelFormatKind kind) {
  return {x, y, z, w, kind};
}

} // namespace tally::hooks::emulated
