// Allocates and frees device memory, and tells other processes how much is used.
#include "api/runtime_state.h"

#include <algorithm>

namespace tally::runtime {

void Runtime::State::noteAllocation(DevicePtr pointer, std::size_t bytes) {
  std::unique_lock lock(memoryMutex);
  allocations[pointer] = bytes;
  memory.used += bytes;
  memory.peak = std::max(memory.peak, memory.used);
  if (arena)
    arena->noteMemory(memory);
}

/// Forgets an allocation and returns its bytes; nothing where allocate() did not make it.
std::optional<std::size_t> Runtime::State::noteFree(DevicePtr pointer) {
  std::unique_lock lock(memoryMutex);
  auto known = allocations.find(pointer);
  if (known == allocations.end())
    return std::nullopt;
  std::size_t bytes = known->second;
  memory.used -= bytes;
  allocations.erase(known);
  if (arena)
    arena->noteMemory(memory);
  return bytes;
}

Result<DevicePtr> Runtime::allocate(std::size_t bytes) {
  Result<DevicePtr> made = state->device->allocate(bytes);
  if (made)
    state->noteAllocation(*made, bytes);
  return made;
}

Result<void> Runtime::free(DevicePtr pointer) {
  // A failed stream has stopped too; its error goes to callers that synchronise it.
  static_cast<void>(state->waitForAll());
  // Forget the allocation before the device frees the memory: another thread may then get the same
  // address.
  std::optional<std::size_t> bytes = state->noteFree(pointer);
  Result<void> freed = state->device->free(pointer);
  if (!freed && bytes)
    state->noteAllocation(pointer, *bytes);
  return freed;
}

} // namespace tally::runtime
