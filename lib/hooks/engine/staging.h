// Copies between the device's memory and pageable host memory, through pinned memory of the hooks'
// own. CUDA makes such a copy during the call, for which all that is queued ahead of it would have
// to be over; between the device's memory and pinned memory a kernel (own_kernels.h) can make it in
// its turn.
#ifndef TALLY_LIB_HOOKS_ENGINE_STAGING_H
#define TALLY_LIB_HOOKS_ENGINE_STAGING_H

#include "engine/best_effort_queue.h"
#include "state/captures.h"
#include "tables/cuda_api.h"
#include "work/own_kernels.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>

namespace tally::hooks {

/// A ring of memory whose pieces are given back about in the order in which they were taken.
/// Thread-safe.
class StagingRing {
public:
  /// A piece of it, which is the caller's until keepUntil().
  struct Piece {
    std::size_t begin = 0;
    std::uint64_t number = 0;
  };
  explicit StagingRing(std::size_t bytes) : bytes(bytes) {}
  /// `isOver`: whether the operation with a ticket is. Nothing: there is no room.
  std::optional<Piece> take(std::size_t size, const std::function<bool(std::uint64_t)> &isOver);
  /// The piece is free again when that operation is over.
  void keepUntil(const Piece &piece, std::uint64_t ticket);

private:
  struct Taken {
    std::size_t begin, end;
    std::optional<std::uint64_t> ticket; ///< nothing: it is its taker's
  };
  const std::size_t bytes;
  std::mutex mutex;
  std::deque<Taken> taken;       ///< the oldest first
  std::uint64_t firstNumber = 0; ///< of those
};

/// One such copy, whose launch is still to be queued.
struct StagedCopy {
  OwnLaunch launch;
  RunOn run; ///< makes it without the kernel's variants
  StagingRing::Piece piece;
  std::byte *memory = nullptr; ///< the piece's
  bool toHost = false;
};

/// That of one device, whose memory goes with the device's context. Thread-safe.
class Staging {
public:
  /// Of pinned memory; and the largest copy that goes through it.
  static constexpr std::size_t capacity = 8 * OwnKernels::mostOfHost, most = OwnKernels::mostOfHost;

  Staging(const CudaApi &api, const Captures &captures, OwnKernels &own, BestEffortQueue &queue)
      : api(api), captures(captures), own(own), queue(queue) {}
  Staging(const Staging &) = delete;
  Staging &operator=(const Staging &) = delete;

  /// Allocates it now: later, while a stream waits on the device, the driver might wait for that.
  void prepare() { memory(); }
  /// Where one end is the device's memory and the other pageable. What is to go to the device is
  /// read during the call. Nothing: it is to be left to CUDA.
  std::optional<StagedCopy> begin(void *to, const void *from, std::size_t bytes,
                                  cudaMemcpyKind kind);
  /// It was queued as that ticket.
  void keepUntil(const StagedCopy &copy, std::uint64_t ticket) {
    ring.keepUntil(copy.piece, ticket);
  }

private:
  std::byte *memory();
  bool isPageable(const void *pointer) const;

  const CudaApi &api;
  const Captures &captures;
  OwnKernels &own;
  BestEffortQueue &queue;
  StagingRing ring{capacity};
  std::mutex allocating;
  void *pinned = nullptr; ///< guarded by it
  bool cannotAllocate = false;
};

} // namespace tally::hooks

#endif
