#include "work/queue_checks.h"

#include <optional>

namespace tally::hooks {

namespace {

/// Nullopt where the CUDA runtime does not tell the type.
using MemoryType = std::optional<cudaMemoryType>;

MemoryType typeOf(const CudaApi &api, const void *pointer) {
  cudaPointerAttributes attributes{};
  if (!pointer || api.cudaPointerGetAttributes(&attributes, pointer) != cudaSuccess)
    return std::nullopt;
  return attributes.type;
}

/// Whether both ends of the range have a wanted type; an empty range always fits.
template <class Wanted>
bool isWithin(const CudaApi &api, const void *memory, std::size_t bytes, Wanted wanted) {
  return bytes == 0 || (wanted(typeOf(api, memory)) &&
                        wanted(typeOf(api, static_cast<const std::byte *>(memory) + bytes - 1)));
}

bool isDeviceOrManaged(MemoryType type) {
  return type == cudaMemoryTypeDevice || type == cudaMemoryTypeManaged;
}
bool isHostOrManaged(MemoryType type) {
  return type == cudaMemoryTypeHost || type == cudaMemoryTypeManaged ||
         type == cudaMemoryTypeUnregistered;
}

} // namespace

/// False for pinned host memory. CUDA fills pinned host memory too, but such fills are rare, so the
/// hooks do not queue them.
bool QueueChecks::isOnDevice(const void *memory, std::size_t bytes) const {
  return isWithin(api, memory, bytes, isDeviceOrManaged);
}

bool QueueChecks::isManaged(const void *memory, std::size_t bytes) const {
  return isWithin(api, memory, bytes,
                  [](MemoryType type) { return type == cudaMemoryTypeManaged; });
}

bool QueueChecks::copy(const void *to, const void *from, std::size_t bytes,
                       cudaMemcpyKind kind) const {
  // Mapped host memory counts as device memory where the device can reach it.
  auto any = [](MemoryType type) { return type.has_value(); };
  auto onDevice = [](MemoryType type) {
    return isDeviceOrManaged(type) || type == cudaMemoryTypeHost;
  };
  switch (kind) {
  case cudaMemcpyHostToHost:
    return isWithin(api, to, bytes, isHostOrManaged) && isWithin(api, from, bytes, isHostOrManaged);
  case cudaMemcpyHostToDevice:
    return isWithin(api, to, bytes, onDevice) && isWithin(api, from, bytes, any);
  case cudaMemcpyDeviceToHost:
    return isWithin(api, to, bytes, any) && isWithin(api, from, bytes, onDevice);
  case cudaMemcpyDeviceToDevice:
    return isWithin(api, to, bytes, onDevice) && isWithin(api, from, bytes, onDevice);
  case cudaMemcpyDefault:
    return isWithin(api, to, bytes, any) && isWithin(api, from, bytes, any);
  }
  return false;
}

} // namespace tally::hooks
