// What the program has allocated. Every address is the host's and the kernels' alike.
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
  unsigned flags = 0; ///< of cudaHostAlloc and cudaHostRegister
  /// Made by a node of a graph, each launch of which gives the same address: never freed.
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
  /// Frees what begins at `pointer` if it is of one of two kinds; what uses it has been waited for.
  cudaError_t release(const void *pointer, MemoryKind one, MemoryKind other);
  cudaError_t adopt(void *pointer, std::size_t bytes, unsigned flags);
  cudaError_t abandon(const void *pointer);
  /// Frees everything, and forgets what was registered; what uses it has been waited for.
  void releaseAll();
  /// The allocation that holds `pointer`; of zero bytes where none does.
  Allocation find(const void *pointer);

  std::size_t total() const { return capacity; }
  std::size_t used();

private:
  Memory();
  std::size_t capacity = 0;
  std::mutex mutex; ///< guards what follows
  std::map<std::uint64_t, Allocation> allocations;
  std::size_t usedBytes = 0; ///< of device and managed memory
};

/// The address as a pointer.
inline std::byte *hostPointer(std::uint64_t address) {
  return reinterpret_cast<std::byte *>(address);
}

} // namespace tally::hooks::emulated

#endif
