// Global memory: one piece of reserved address space, handed out in pieces with exact bounds.
#ifndef TALLY_LIB_EMULATOR_MEMORY_H
#define TALLY_LIB_EMULATOR_MEMORY_H

#include "tally/support/result.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <shared_mutex>

namespace tally::emulator {

/// The windows of the generic address space. PTX ISA 5.1 leaves their place open; kernels may rely
/// only on cvta and isspacep. The global window is free address space of a Linux process, under
/// AddressSanitizer too. ThreadSanitizer leaves a process only a few ranges.
#if defined(__SANITIZE_THREAD__)
inline constexpr std::uint64_t globalWindow = 0x004000000000u;
#else
inline constexpr std::uint64_t globalWindow = 0x200000000000u;
#endif
inline constexpr std::uint64_t sharedWindow = 0x7e0000000000u;
inline constexpr std::uint64_t localWindow = 0x7d0000000000u;
inline constexpr std::uint64_t parameterWindow = 0x7c0000000000u;
inline constexpr std::uint64_t codeWindow = 0x7b0000000000u;
inline constexpr std::uint64_t windowBytes = 0x010000000000u;

/// In the shared window bits 24 and up name a block of the cluster, its rank plus one; zero is the
/// block's own. No block has so much shared memory that offset and rank could overlap.
inline constexpr unsigned clusterRankShift = 24;
inline constexpr std::uint64_t sharedOffsetMask = (std::uint64_t{1} << clusterRankShift) - 1;

/// An allocation: device addresses [begin, end).
struct Segment {
  std::uint64_t begin = 0, end = 0;
};

/// Allocates device memory, 256-byte aligned with a gap behind each piece. Thread-safe. The host
/// can read the memory until the object is destroyed, so that a kernel's use of freed memory is a
/// fault and never a crash.
class GlobalMemory {
public:
  /// `hostAddressed`: device addresses are host addresses, if the process has that address space
  /// free.
  explicit GlobalMemory(bool hostAddressed = false);
  ~GlobalMemory();
  GlobalMemory(const GlobalMemory &) = delete;
  GlobalMemory &operator=(const GlobalMemory &) = delete;

  /// Fails when the address space is used up. Zero bytes are rounded up to one.
  Result<std::uint64_t> allocate(std::size_t bytes, std::byte fill);
  Result<void> free(std::uint64_t address);
  /// Makes host memory an allocation at its own address, until free(). Fails unless
  /// isHostAddressed, or where it overlaps another allocation.
  Result<void> adopt(std::uint64_t address, std::size_t bytes);
  bool isHostAddressed() const { return base && hostBias == 0; }
  /// Returns the allocation that holds `address`; empty when there is none.
  Segment find(std::uint64_t address) const;
  /// Returns the last allocation that begins at or below `address`, for messages; empty without
  /// one.
  Segment before(std::uint64_t address) const;
  /// Grows with each free(); earlier results of find() are then stale.
  std::uint64_t generation() const { return freeCount.load(std::memory_order_relaxed); }
  /// The number to add (modulo 2^64) to a device address in an allocation to get the host address.
  std::uint64_t bias() const { return hostBias; }
  std::byte *host(std::uint64_t address) const {
    return reinterpret_cast<std::byte *>(address + hostBias);
  }

private:
  bool isAdopted(std::uint64_t address) const {
    return address < globalWindow || address - globalWindow >= capacity;
  }

  std::byte *base = nullptr;
  std::uint64_t hostBias = 0;
  std::size_t capacity = 0;
  mutable std::shared_mutex mutex;
  std::map<std::uint64_t, std::uint64_t> live;  ///< begin → end
  std::map<std::uint64_t, std::uint64_t> holes; ///< begin → end, multiples of the granule
  std::atomic<std::uint64_t> freeCount{0};
};

} // namespace tally::emulator

#endif
