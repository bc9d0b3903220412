#include "tally/ptx/ir/bump_allocator.h"

#include <algorithm>
#include <cstdlib>
#include <new>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace tally::ptx {

namespace {

/// Chunks start small for small modules and grow to a huge page: the first touch of 4 KiB pages
/// would cost a tenth of the time that parsing takes.
constexpr std::size_t firstChunk = 16 << 10, hugePage = 2 << 20;

} // namespace

BumpAllocator::~BumpAllocator() {
  clear();
  for (void *chunk : chunks)
    std::free(chunk);
}

void BumpAllocator::clear() {
  for (void *object : largeObjects)
    std::free(object);
  largeObjects.clear();
  used = left = 0;
}

void *BumpAllocator::allocateInNewChunk(std::size_t bytes) {
  const std::size_t size = std::min(firstChunk << std::min<std::size_t>(used, 8), hugePage);
  if (bytes > size / 4) { // the current chunk stays in use
    largeObjects.push_back(nullptr);
    if (!(largeObjects.back() = std::malloc(bytes)))
      throw std::bad_alloc();
    return largeObjects.back();
  }
  if (used == chunks.size()) {
    chunks.push_back(nullptr);
    void *&chunk = chunks.back();
    chunk = size == hugePage ? std::aligned_alloc(hugePage, size) : std::malloc(size);
    if (!chunk) {
      chunks.pop_back();
      throw std::bad_alloc();
    }
#ifdef __linux__
    if (size == hugePage)
      madvise(chunk, size, MADV_HUGEPAGE); // an advice: without huge pages it is only slower
#endif
  }
  void *chunk = chunks[used++];
  next = static_cast<std::byte *>(chunk) + bytes;
  left = size - bytes;
  return chunk;
}

} // namespace tally::ptx
