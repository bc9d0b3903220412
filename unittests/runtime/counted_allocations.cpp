#include "counted_allocations.h"

#include <cstddef>
#include <cstdlib>
#include <new>

#include <malloc.h>

namespace tally::runtime {

std::atomic<std::int64_t> Allocations::blocks{0}, Allocations::bytes{0};

namespace {

void *allocate(std::size_t size, std::size_t alignment) {
  void *memory =
      alignment <= alignof(std::max_align_t)
          ? std::malloc(size)
          : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (!memory)
    throw std::bad_alloc();
  ++Allocations::blocks;
  Allocations::bytes += static_cast<std::int64_t>(malloc_usable_size(memory));
  return memory;
}

void release(void *memory) {
  if (!memory)
    return;
  --Allocations::blocks;
  Allocations::bytes -= static_cast<std::int64_t>(malloc_usable_size(memory));
  std::free(memory);
}

} // namespace

} // namespace tally::runtime

using tally::runtime::allocate;
using tally::runtime::release;

// Other forms of operator new call these forms, or have their own operator delete.
void *operator new(std::size_t size) { return allocate(size, 1); }
// The address sanitizer's nothrow form would not call the one above, and the operator delete below
// would release its memory.
void *operator new(std::size_t size, const std::nothrow_t &) noexcept {
  try {
    return allocate(size, 1);
  } catch (const std::bad_alloc &) {
    return nullptr;
  }
}
void *operator new(std::size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<std::size_t>(alignment));
}
void operator delete(void *memory) noexcept { release(memory); }
void operator delete(void *memory, std::size_t) noexcept { release(memory); }
void operator delete(void *memory, std::align_val_t) noexcept { release(memory); }
void operator delete(void *memory, std::size_t, std::align_val_t) noexcept { release(memory); }
