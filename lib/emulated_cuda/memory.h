// The program's allocations. Every address is the same for the host and for kernels.
#ifndef TALLY_LIB_EMULATED_CUDA_MEMORY_H
#define TALLY_LIB_EMULATED_CUDA_MEMORY_H

#include "context.h"

#include <map>
#include <mutex>

namespace tally::hooks::emulated {

enum class MemoryKind : std::uint8_t { Device, Managed, Pinned, Registered };

struct Allocation {
  std::uint64_t begin = 0, bytes = 0;
  MemoryKind kind = MemoryKind::Device;
  unsigned flags = 0; ///< flags of cudaHostAlloc and cudaHostRegister
  /// Made by a graph's node; each launch of the node gives the same address, so it is never freed.
  bool isOfGraph = false;
};

/// An array: rows without gaps, `elementBytes` each element.
struct Array {
  cudaChannelFormatDesc format{};
  cudaExtent extent{}; ///< in elements; 0 where the array has fewer dimensions
  unsigned flags = 0;
  std::size_t elementBytes = 0;
  std::uint64_t memory = 0;

  std::size_t pitch() const { return extent.width * elementBytes; }
  std::size_t rows() const { return extent.height ? extent.height : 1; }
  std::size_t slices() const { return extent.depth ? extent.depth : 1; }
};

/// Thread-safe.
class Memory {
public:
  static Memory &get();

  cudaError_t allocate(std::size_t bytes, MemoryKind kind, unsigned flags, void **result);
  cudaError_t allocateForGraph(std::size_t bytes, void **result);
  /// Frees the allocation that begins at `pointer` if it is of one of two kinds. The caller has
  /// waited for all work that uses it.
  cudaError_t release(const void *pointer, MemoryKind one, MemoryKind other);
  cudaError_t adopt(void *pointer, std::size_t bytes, unsigned flags);
  cudaError_t abandon(const void *pointer);
  /// Frees all allocations, and forgets registered memory. The caller has waited for all work that
  /// uses them.
  void releaseAll();
  /// The allocation that holds `pointer`; an allocation of zero bytes where there is none.
  Allocation find(const void *pointer);

  std::size_t total() const { return capacity; }
  std::size_t used();

private:
  Memory();
  std::size_t capacity = 0;
  std::mutex mutex; ///< guards the members below
  std::map<std::uint64_t, Allocation> allocations;
  std::size_t usedBytes = 0; ///< bytes of device and managed memory
};

/// The address as a pointer.
inline std::byte *hostPointer(std::uint64_t address) {
  return reinterpret_cast<std::byte *>(address);
}

} // namespace tally::hooks::emulated

#endif
