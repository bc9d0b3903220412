// Copies between device memory and pageable host memory, through pinned memory of the hooks. CUDA
// makes such a copy during the call, and all queued operations ahead of it would have to be over
// first. A kernel (own_kernels.h) can copy between device memory and pinned memory in the order of
// the queue.
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
  /// A piece of the ring, which the caller owns until keepUntil().
  struct Piece {
    std::size_t begin = 0;
    std::uint64_t number = 0;
  };
  explicit StagingRing(std::size_t bytes) : bytes(bytes) {}
  /// `isOver`: whether the operation with a ticket is over. Returns nothing where no piece is free.
  std::optional<Piece> take(std::size_t size, const std::function<bool(std::uint64_t)> &isOver);
  /// The piece is free again when the operation with that ticket is over.
  void keepUntil(const Piece &piece, std::uint64_t ticket);

private:
  struct Taken {
    std::size_t begin, end;
    std::optional<std::uint64_t> ticket; ///< nothing: the caller of take() owns it
  };
  const std::size_t bytes;
  std::mutex mutex;
  std::deque<Taken> taken;       ///< the oldest first
  std::uint64_t firstNumber = 0; ///< number of the first entry of `taken`
};

/// One staged copy, whose launch is not queued yet.
struct StagedCopy {
  OwnLaunch launch;
  RunOn run; ///< makes the copy without the kernel's variants
  StagingRing::Piece piece;
  std::byte *memory = nullptr; ///< the piece's memory
  bool toHost = false;
};

/// The staging memory of one device; it goes with the device's context. Thread-safe.
class Staging {
public:
  /// Bytes of pinned memory, and of the largest copy that goes through it.
  static constexpr std::size_t capacity = 8 * OwnKernels::mostOfHost, most = OwnKernels::mostOfHost;

  Staging(const CudaApi &api, const Captures &captures, OwnKernels &own, BestEffortQueue &queue)
      : api(api), captures(captures), own(own), queue(queue) {}
  Staging(const Staging &) = delete;
  Staging &operator=(const Staging &) = delete;

  /// Allocates the memory now: later, while a stream waits on the device, the driver might wait for
  /// that stream.
  void prepare() { memory(); }
  /// For a copy between device memory and pageable memory. Bytes for the device are read during the
  /// call. Returns nothing where CUDA has to make the copy.
  std::optional<StagedCopy> begin(void *to, const void *from, std::size_t bytes,
                                  cudaMemcpyKind kind);
  /// The copy was queued under that ticket.
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
  void *pinned = nullptr; ///< guarded by `allocating`
  bool cannotAllocate = false;
};

} // namespace tally::hooks

#endif
