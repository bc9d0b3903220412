// The queue of best-effort work. Operations have tickets in the order of submission over all
// streams.
//
// Streams are spread over tracks, each a lane of the runtime; those of one class of best effort
// over that class' own. In one track the order is that of submission, so with one track whatever an
// event, a stream's wait or the legacy stream demands of queued operations holds by itself. Between
// tracks an operation starts when what it comes behind there is over: for the legacy stream all
// that was put on blocking streams before, and the reverse; else what its caller says. What it
// comes behind was submitted before it, so no two wait for each other.
#ifndef TALLY_LIB_HOOKS_ENGINE_BEST_EFFORT_QUEUE_H
#define TALLY_LIB_HOOKS_ENGINE_BEST_EFFORT_QUEUE_H

#include "dispatch/dispatcher.h"
#include "state/streams.h"

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

namespace tally::hooks {

using Run = std::function<cudaError_t()>;
/// A call that has its stream as a parameter.
using RunOn = std::function<cudaError_t(cudaStream_t)>;

/// A call that may be made on another stream of the device in place of the program's. None: it may
/// not.
struct OnAnyStream {
  RunOn run;
  bool mayBeLate = false; ///< runtime::Operation::mayBeLate
};

/// What an operation comes behind, but for what its stream's order says: tickets.
struct Behind {
  std::uint64_t one = 0;  ///< this operation
  std::uint64_t upTo = 0; ///< all up to this one
};

/// Tickets count operations from 1. Thread-safe.
class BestEffortQueue {
public:
  /// `openLanes` gives the lanes of a class of best effort, on whatever thread; nothing where they
  /// cannot be had.
  using Lanes = std::span<const std::unique_ptr<runtime::Lane>>;
  BestEffortQueue(runtime::Dispatcher &dispatcher,
                  std::function<Lanes(std::uint32_t bestEffortClass)> openLanes)
      : dispatcher(dispatcher), openLanes(std::move(openLanes)) {}

  /// Takes what a class needs of the device, before there is anything of it: that may take a while.
  void open(std::uint32_t bestEffortClass) {
    std::unique_lock lock(mutex);
    groupOf(bestEffortClass);
  }
  /// Puts an operation behind all others of its stream; returns its ticket. Waits while the
  /// stream's track is full.
  std::uint64_t submit(StreamState &stream, runtime::Operation operation, Behind behind = {});
  /// The same with several, which `make` gives by their numbers; nothing of other threads comes
  /// between them on their track. Returns the last one's ticket; that of the newest operation of
  /// all where there are none.
  std::uint64_t submit(StreamState &stream, std::size_t count,
                       const std::function<runtime::Operation(std::size_t)> &make, Behind behind);
  /// A call of the CUDA runtime, made on the dispatcher's thread.
  std::uint64_t submit(StreamState &stream, Run run, Behind behind = {});
  /// Runs on the calling thread when its turn comes, and returns then. `launches`: it may put a
  /// kernel on the stream, which is over before the next operation of the track starts; what that
  /// takes is remembered under `identity`.
  cudaError_t inTurn(StreamState &stream, bool launches, std::uint64_t identity, const Run &run,
                     Behind behind);

  /// Waits until that operation, and so what its track had before it, is over. `urgent`: work of
  /// high priority waits for it, so that it need not wait for other such work.
  void wait(std::uint64_t ticket, bool urgent);
  /// The same of all operations up to that one, on whatever track.
  void waitUpTo(std::uint64_t ticket, bool urgent);
  void drain(bool urgent) { waitUpTo(submitted.load(), urgent); }
  bool isOver(std::uint64_t ticket) const { return ticket <= over.load() || !find(ticket).lane; }
  bool isOverUpTo(std::uint64_t ticket) const { return ticket <= over.load() || look(ticket); }
  /// Whether a call may be made at once.
  bool isIdle() const { return isOverUpTo(submitted.load()) && !dispatcher.isClosed(); }
  std::uint64_t last() const { return submitted.load(); }
  /// The last operation on a stream that the legacy stream is ordered with, and on a legacy stream.
  std::uint64_t lastBlocking() const { return blocking.load(); }
  std::uint64_t lastLegacy() const { return legacy.load(); }

  /// Keeps what an operation whose call had returned came to, if it is no success.
  void keepError(cudaError_t status);
  /// The first error of such an operation; cudaSuccess if there was none. Given once where `clear`.
  /// Programs ask behind each launch and each wait, those of high priority too: mostly that reads
  /// two words, which nobody writes.
  cudaError_t takeError(bool clear) {
    bool none = error.load() == cudaSuccess && !anyFailed.load();
    return none ? cudaSuccess : takeSlowly(clear);
  }

private:
  struct Placed {
    std::uint64_t ticket = 0, number = 0; ///< in the queue, and in the lane
  };
  struct Track {
    Track(runtime::Lane &lane, std::atomic<bool> &anyFailed)
        : lane(lane), order(lane, 0, &anyFailed) {}
    runtime::Lane &lane;
    runtime::LaneStream order;     ///< all operations are on one stream of the lane
    std::deque<Placed> unfinished; ///< those that were not seen to be over; guarded by `looking`
    /// Drops what is over.
    void sweep();
    /// The last of them up to that ticket; 0 where there is none.
    std::uint64_t numberUpTo(std::uint64_t ticket) const;
  };
  /// The tracks of a class.
  struct Group {
    std::size_t first = 0, count = 0; ///< none: it was not needed yet
    std::size_t next = 0;             ///< for the next stream, in turn
  };

  std::uint64_t put(StreamState &stream, runtime::Operation operation, Behind behind);
  Track &trackOf(StreamState &stream);
  Group &groupOf(std::uint32_t bestEffortClass);
  std::vector<runtime::LanePosition> inOthers(const Track &track, Behind behind,
                                              std::uint64_t last) const;
  runtime::LanePosition find(std::uint64_t ticket) const;
  bool look(std::uint64_t ticket) const;
  void sweep() const;
  cudaError_t takeSlowly(bool clear);
  void wait(const std::vector<runtime::LanePosition> &positions, bool urgent);

  runtime::Dispatcher &dispatcher;
  const std::function<Lanes(std::uint32_t)> openLanes;
  std::mutex mutex;                           ///< of submission
  std::map<std::uint32_t, Group> groups;      ///< by class; guarded by it
  mutable std::mutex looking;                 ///< of the tracks; never held while waiting
  mutable std::deque<Track> tracks;           ///< they stay
  mutable std::atomic<std::uint64_t> over{0}; ///< all up to there
  std::atomic<std::uint64_t> submitted{0}, blocking{0}, legacy{0};
  alignas(64) std::atomic<int> error{cudaSuccess};
  std::atomic<bool> anyFailed{false}; ///< of the tracks
};

} // namespace tally::hooks

#endif
