#include "memory.h"

#include <fmt/format.h>

#include <cstring>
#include <sys/mman.h>

namespace tally::emulator {

namespace {
constexpr std::size_t granule = 256;

std::size_t reservedBytes(std::size_t bytes) {
  // One granule more than the piece needs: what runs over its end meets no neighbour.
  return ((bytes + granule - 1) / granule + 1) * granule;
}
} // namespace

Arena::Arena() {
  // Address space only; pages come with their first use. Smaller where a limit forbids the large.
  for (capacity = std::size_t{1} << 38; capacity >= (std::size_t{1} << 26); capacity >>= 1) {
    void *memory = mmap(nullptr, capacity, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory != MAP_FAILED) {
      base = static_cast<std::byte *>(memory);
      break;
    }
  }
  if (!base)
    capacity = 0;
  hostBias = reinterpret_cast<std::uintptr_t>(base) - globalWindow;
  if (capacity)
    holes[globalWindow] = globalWindow + capacity;
}

Arena::~Arena() {
  if (base)
    munmap(base, capacity);
}

Result<std::uint64_t> Arena::allocate(std::size_t bytes, std::byte fill) {
  bytes = bytes ? bytes : 1;
  if (bytes > capacity)
    return Error{
        fmt::format("allocating {} bytes: the emulator's memory is {} bytes", bytes, capacity)};
  std::size_t reserved = reservedBytes(bytes);
  std::unique_lock lock(mutex);
  for (auto hole = holes.begin(); hole != holes.end(); ++hole) {
    auto [begin, end] = *hole;
    if (end - begin < reserved)
      continue;
    holes.erase(hole);
    if (begin + reserved < end)
      holes[begin + reserved] = end;
    live[begin] = begin + bytes;
    std::memset(host(begin), static_cast<int>(fill), bytes);
    return begin;
  }
  return Error{fmt::format("allocating {} bytes: the emulator's memory is used up", bytes)};
}

Result<void> Arena::free(std::uint64_t address) {
  std::unique_lock lock(mutex);
  auto found = live.find(address);
  if (found == live.end())
    return Error{fmt::format("freeing {:#x}: nothing is allocated at that address", address)};
  std::uint64_t begin = address, end = address + reservedBytes(found->second - found->first);
  live.erase(found);
  freeCount.fetch_add(1, std::memory_order_relaxed);
  auto next = holes.lower_bound(begin);
  if (next != holes.end() && next->first == end) {
    end = next->second;
    next = holes.erase(next);
  }
  if (next != holes.begin()) {
    auto previous = std::prev(next);
    if (previous->second == begin) {
      previous->second = end;
      return {};
    }
  }
  holes[begin] = end;
  return {};
}

Segment Arena::before(std::uint64_t address) const {
  std::shared_lock lock(mutex);
  auto next = live.upper_bound(address);
  if (next == live.begin())
    return {};
  auto found = std::prev(next);
  return {found->first, found->second};
}

Segment Arena::find(std::uint64_t address) const {
  Segment segment = before(address);
  return address < segment.end ? segment : Segment{};
}

} // namespace tally::emulator
