#include "tally/ptx/ir/arena.h"

#include <algorithm>
#include <cstdlib>
#include <new>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace tally::ptx {

namespace {

/// Small modules take little; from here on each chunk is this large: a huge page, as the first
/// touch of 4 KiB pages would cost a tenth of the time that parsing does.
constexpr std::size_t firstChunk = 16 << 10, hugePage = 2 << 20;

} // namespace

Arena::~Arena() {
  for (void *chunk : chunks)
    std::free(chunk);
}

void *Arena::allocateInNewChunk(std::size_t bytes) {
  const std::size_t size =
      std::min(firstChunk << std::min<std::size_t>(chunks.size(), 8), hugePage);
  chunks.reserve(chunks.size() + 1);
  if (bytes > size / 4) { // a chunk of its own; the current one goes on
    void *own = std::malloc(bytes);
    if (!own)
      throw std::bad_alloc();
    chunks.push_back(own);
    return own;
  }
  void *chunk = size == hugePage ? std::aligned_alloc(hugePage, size) : std::malloc(size);
  if (!chunk)
    throw std::bad_alloc();
  chunks.push_back(chunk);
#ifdef __linux__
  if (size == hugePage)
    madvise(chunk, size, MADV_HUGEPAGE); // an advice: without huge pages it is only slower
#endif
  next = static_cast<std::byte *>(chunk) + bytes;
  left = size - bytes;
  return chunk;
}

} // namespace tally::ptx
