// Bump allocator for a module's operands, statements and lists. All memory is released at once.
#ifndef TALLY_PTX_IR_BUMP_ALLOCATOR_H
#define TALLY_PTX_IR_BUMP_ALLOCATOR_H

#include <cstddef>
#include <memory>
#include <type_traits>
#include <vector>

namespace tally::ptx {

/// Bump allocation from chunks. An object stays at its address until the allocator is destroyed or
/// cleared. The allocator calls no destructors, so it takes only trivially destructible types. Not
/// thread-safe.
class BumpAllocator {
public:
  BumpAllocator() = default;
  BumpAllocator(const BumpAllocator &) = delete;
  BumpAllocator &operator=(const BumpAllocator &) = delete;
  ~BumpAllocator();

  /// Returns uninitialised memory for `count` elements; count is above 0. Throws std::bad_alloc.
  template <class T> T *allocate(std::size_t count) {
    static_assert(std::is_trivially_destructible_v<T>, "the allocator destroys nothing");
    static_assert(alignof(T) <= alignof(std::max_align_t));
    return static_cast<T *>(allocateBytes(count * sizeof(T), alignof(T)));
  }
  template <class T> const T *copy(const T *from, std::size_t count) {
    T *memory = allocate<T>(count);
    std::uninitialized_copy_n(from, count, memory);
    return memory;
  }
  /// Forgets all objects and keeps the memory for later allocations: touching new pages costs more
  /// than parsing into old ones.
  void clear();

private:
  void *allocateBytes(std::size_t bytes, std::size_t alignment) {
    std::size_t padding = (alignment - reinterpret_cast<std::size_t>(next) % alignment) % alignment;
    if (bytes + padding > left)
      return allocateInNewChunk(bytes);
    std::byte *place = next + padding;
    next = place + bytes;
    left -= bytes + padding;
    return place;
  }
  void *allocateInNewChunk(std::size_t bytes);

  std::vector<void *> chunks;       ///< the sizes follow from the order
  std::vector<void *> largeObjects; ///< each alone
  std::size_t used = 0;             ///< bytes used of the chunks; `next` is in the last of them
  std::byte *next = nullptr;
  std::size_t left = 0;
};

} // namespace tally::ptx

#endif
