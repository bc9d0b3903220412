#include "memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <sys/mman.h>

namespace tally::emulator {

namespace {
constexpr std::size_t granule = 256;

std::size_t reservedBytes(std::size_t bytes) {
  // One granule more than the piece needs: an overrun of its end reaches no neighbour.
  return ((bytes + granule - 1) / granule + 1) * granule;
}

/// Whole pages of zeros cost nothing until they are used.
void fillFresh(std::byte *begin, std::size_t bytes, std::byte fill) {
  constexpr std::size_t page = 4096;
  auto address = reinterpret_cast<std::uintptr_t>(begin);
  std::size_t head = std::min((page - address % page) % page, bytes);
  std::size_t whole = (bytes - head) / page * page;
  if (fill != std::byte{0} || whole < 16 * page ||
      madvise(begin + head, whole, MADV_DONTNEED) != 0) {
    std::memset(begin, static_cast<int>(fill), bytes);
    return;
  }
  std::memset(begin, 0, head);
  std::memset(begin + head + whole, 0, bytes - head - whole);
}
} // namespace

GlobalMemory::GlobalMemory(bool hostAddressed) {
  void *wanted = hostAddressed ? reinterpret_cast<void *>(globalWindow) : nullptr;
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  if (hostAddressed)
    flags |= MAP_FIXED_NOREPLACE;
  // The mapping reserves address space only; the system adds a page at its first use. Where a limit
  // forbids the size, try half of it.
  for (capacity = std::size_t{1} << 38; capacity >= (std::size_t{1} << 26); capacity >>= 1) {
    void *memory = mmap(wanted, capacity, PROT_READ | PROT_WRITE, flags, -1, 0);
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

GlobalMemory::~GlobalMemory() {
  if (base)
    munmap(base, capacity);
}

Result<std::uint64_t> GlobalMemory::allocate(std::size_t bytes, std::byte fill) {
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
    fillFresh(host(begin), bytes, fill);
    return begin;
  }
  return Error{fmt::format("allocating {} bytes: the emulator's memory is used up", bytes)};
}

Result<void> GlobalMemory::free(std::uint64_t address) {
  std::unique_lock lock(mutex);
  auto found = live.find(address);
  if (found == live.end())
    return Error{fmt::format("freeing {:#x}: nothing is allocated at that address", address)};
  std::uint64_t begin = address, end = address + reservedBytes(found->second - found->first);
  live.erase(found);
  freeCount.fetch_add(1, std::memory_order_relaxed);
  if (isAdopted(address))
    return {};
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

Result<void> GlobalMemory::adopt(std::uint64_t address, std::size_t bytes) {
  if (!isHostAddressed())
    return Error{"the emulator's addresses are not the host's"};
  std::unique_lock lock(mutex);
  auto next = live.lower_bound(address);
  bool overlaps = next != live.end() && next->first < address + bytes;
  if (next != live.begin())
    overlaps |= std::prev(next)->second > address;
  if (bytes == 0 || overlaps || !isAdopted(address))
    return Error{fmt::format("[{:#x}, {:#x}) overlaps an allocation", address, address + bytes)};
  live[address] = address + bytes;
  return {};
}

Segment GlobalMemory::before(std::uint64_t address) const {
  std::shared_lock lock(mutex);
  auto next = live.upper_bound(address);
  if (next == live.begin())
    return {};
  auto found = std::prev(next);
  return {found->first, found->second};
}

Segment GlobalMemory::find(std::uint64_t address) const {
  Segment segment = before(address);
  return address < segment.end ? segment : Segment{};
}

} // namespace tally::emulator
