#include "memory.h"

#include <algorithm>
#include <cassert>
#include <unistd.h>

namespace tally::hooks::emulated {

Memory &Memory::get() {
  static auto *only = new Memory;
  return *only;
}

Memory::Memory() {
  constexpr std::size_t most = std::size_t{16} << 30;
  std::size_t physical = static_cast<std::size_t>(std::max(sysconf(_SC_PHYS_PAGES), 1L)) *
                         static_cast<std::size_t>(std::max(sysconf(_SC_PAGESIZE), 1L));
  capacity = std::min(most, physical / 4 * 3);
}

cudaError_t Memory::allocate(std::size_t bytes, MemoryKind kind, unsigned flags, void **result) {
  if (!result)
    return cudaErrorInvalidValue;
  *result = nullptr;
  if (bytes == 0)
    return cudaSuccess;
  std::scoped_lock lock(mutex);
  if (bytes > capacity - usedBytes)
    return cudaErrorMemoryAllocation;
  auto address = Context::get().device()->machine().allocateZeroed(bytes);
  if (!address)
    return cudaErrorMemoryAllocation;
  usedBytes += bytes;
  allocations[*address] = {*address, bytes, kind, flags};
  *result = hostPointer(*address);
  return cudaSuccess;
}

cudaError_t Memory::allocateForGraph(std::size_t bytes, void **result) {
  cudaError_t error = allocate(bytes, MemoryKind::Device, 0, result);
  if (error != cudaSuccess || !*result)
    return error;
  std::scoped_lock lock(mutex);
  allocations[reinterpret_cast<std::uintptr_t>(*result)].isOfGraph = true;
  return cudaSuccess;
}

cudaError_t Memory::release(const void *pointer, MemoryKind one, MemoryKind other) {
  if (!pointer)
    return cudaSuccess;
  std::scoped_lock lock(mutex);
  auto found = allocations.find(reinterpret_cast<std::uintptr_t>(pointer));
  if (found == allocations.end() || (found->second.kind != one && found->second.kind != other))
    return cudaErrorInvalidValue;
  if (found->second.isOfGraph)
    return cudaSuccess;
  if (!Context::get().device()->machine().free(found->first))
    return cudaErrorInvalidValue;
  usedBytes -= found->second.bytes;
  allocations.erase(found);
  return cudaSuccess;
}

cudaError_t Memory::adopt(void *pointer, std::size_t bytes, unsigned flags) {
  if (!pointer || bytes == 0)
    return cudaErrorInvalidValue;
  std::scoped_lock lock(mutex);
  if (!Context::get().device()->machine().adopt({static_cast<std::byte *>(pointer), bytes}))
    return cudaErrorHostMemoryAlreadyRegistered;
  auto address = reinterpret_cast<std::uintptr_t>(pointer);
  allocations[address] = {address, bytes, MemoryKind::Registered, flags};
  return cudaSuccess;
}

cudaError_t Memory::abandon(const void *pointer) {
  std::scoped_lock lock(mutex);
  auto found = allocations.find(reinterpret_cast<std::uintptr_t>(pointer));
  if (found == allocations.end() || found->second.kind != MemoryKind::Registered ||
      !Context::get().device()->machine().free(found->first))
    return cudaErrorHostMemoryNotRegistered;
  allocations.erase(found);
  return cudaSuccess;
}

void Memory::releaseAll() {
  std::scoped_lock lock(mutex);
  for (const auto &[address, allocation] : allocations) {
    [[maybe_unused]] auto done = Context::get().device()->machine().free(address);
    assert(done && "what is listed is allocated");
  }
  allocations.clear();
  usedBytes = 0;
}

Allocation Memory::find(const void *pointer) {
  auto address = reinterpret_cast<std::uintptr_t>(pointer);
  std::scoped_lock lock(mutex);
  auto next = allocations.upper_bound(address);
  if (next == allocations.begin())
    return {};
  const Allocation &found = std::prev(next)->second;
  return address - found.begin < found.bytes ? found : Allocation{};
}

std::size_t Memory::used() {
  std::scoped_lock lock(mutex);
  return usedBytes;
}

} // namespace tally::hooks::emulated
