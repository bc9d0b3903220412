// The queue of best-effort work. Operations have tickets in the order of submission over all
// streams.
//
// Streams are spread over tracks, each a lane of the runtime. Streams of one class of best effort
// use the tracks of that class. One track keeps the order of submission, so with a single track all
// orders that an event, a stream's wait or the legacy stream demands hold without further work.
// Between tracks an operation starts when the operations that it comes behind are over. An
// operation on the legacy stream comes behind all earlier operations on blocking streams, and the
// reverse; other orders are given by the caller. An operation comes only behind earlier ones, so no
// two operations wait for each other.
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

/// A call that may be made on another stream of the device in place of the program's. Empty `run`:
/// it may not.
struct OnAnyStream {
  RunOn run;
  bool mayBeLate = false; ///< runtime::Operation::mayBeLate
};

/// The tickets that an operation comes behind, beside the order of its own stream.
struct Behind {
  std::uint64_t one = 0;  ///< this operation
  std::uint64_t upTo = 0; ///< all operations up to this one
};

/// Tickets count operations from 1. Thread-safe.
class BestEffortQueue {
public:
  /// `openLanes` returns the lanes of a class of best effort, on any thread; an empty list where
  /// they cannot be opened.
  using Lanes = std::span<const std::unique_ptr<runtime::Lane>>;
  BestEffortQueue(runtime::Dispatcher &dispatcher,
                  std::function<Lanes(std::uint32_t bestEffortClass)> openLanes)
      : dispatcher(dispatcher), openLanes(std::move(openLanes)) {}

  /// Opens the lanes of a class before there is work of it. This may take a while.
  void open(std::uint32_t bestEffortClass) {
    std::unique_lock lock(mutex);
    groupOf(bestEffortClass);
  }
  /// Puts an operation behind all others of its stream; returns its ticket. Waits while the
  /// stream's track is full.
  std::uint64_t submit(StreamState &stream, runtime::Operation &&operation, Behind behind = {});
  /// Puts several operations, which `make` gives by their numbers. No operation of another thread
  /// comes between them on their track. Returns the ticket of the last one; where `count` is 0, the
  /// ticket of the newest operation of all.
  std::uint64_t submit(StreamState &stream, std::size_t count,
                       const std::function<runtime::Operation(std::size_t)> &make, Behind behind);
  /// Queues a call of the CUDA runtime, which is made on the dispatcher's thread.
  std::uint64_t submit(StreamState &stream, Run run, Behind behind = {});
  /// Makes `run` on the calling thread when its turn comes, then returns. `launches`: the call may
  /// put a kernel on the stream. The kernel is over before the next operation of the track starts,
  /// and its duration is remembered under `identity`.
  cudaError_t inTurn(StreamState &stream, bool launches, std::uint64_t identity, const Run &run,
                     Behind behind);

  /// Waits until that operation, and so all earlier ones of its track, is over. `urgent`:
  /// high-priority work waits for it, so it does not yield to other high-priority work.
  void wait(std::uint64_t ticket, bool urgent);
  /// Waits for all operations up to that one, on all tracks.
  void waitUpTo(std::uint64_t ticket, bool urgent);
  void drain(bool urgent) { waitUpTo(submitted.load(), urgent); }
  bool isOver(std::uint64_t ticket) const { return ticket <= over.load() || !find(ticket).lane; }
  bool isOverUpTo(std::uint64_t ticket) const { return ticket <= over.load() || look(ticket); }
  /// Whether a call may be made at once.
  bool isIdle() const { return isOverUpTo(submitted.load()) && !dispatcher.isClosed(); }
  std::uint64_t last() const { return submitted.load(); }
  /// The last operation on a stream that the legacy stream is ordered with, and the last on a
  /// legacy stream.
  std::uint64_t lastBlocking() const { return blocking.load(); }
  std::uint64_t lastLegacy() const { return legacy.load(); }

  /// Keeps the error of an operation whose call had already returned.
  void keepError(cudaError_t status);
  /// The first error of such an operation; cudaSuccess if there was none. `clear`: the error is
  /// returned once. Programs ask behind each launch and each wait, on high-priority streams too.
  /// The usual path reads two words that no thread writes.
  cudaError_t takeError(bool clear) {
    bool none = error.load() == cudaSuccess && !anyFailed.load();
    return none ? cudaSuccess : takeSlowly(clear);
  }

private:
  struct Placed {
    std::uint64_t ticket = 0, number = 0; ///< `ticket` in the queue, `number` in the lane
  };
  struct Track {
    Track(runtime::Lane &lane, std::atomic<bool> &anyFailed)
        : lane(lane), order(lane, 0, &anyFailed) {}
    runtime::Lane &lane;
    runtime::LaneStream order;     ///< all operations are on one stream of the lane
    std::deque<Placed> unfinished; ///< operations not yet seen to be over; guarded by `looking`
    /// Drops operations that are over.
    void sweep();
    /// The lane's number of the last operation up to that ticket; 0 where there is none.
    std::uint64_t numberUpTo(std::uint64_t ticket) const;
  };
  /// The tracks of a class.
  struct Group {
    std::size_t first = 0, count = 0; ///< count 0: the class was not needed yet
    std::size_t next = 0;             ///< the track of the next new stream, round robin
  };

  std::uint64_t put(StreamState &stream, runtime::Operation &&operation, Behind behind);
  Track &trackOf(StreamState &stream);
  Group &groupOf(std::uint32_t bestEffortClass);
  std::vector<runtime::LanePosition> inOthers(const Track &track, Behind behind,
                                              std::uint64_t last) const;
  runtime::LanePosition find(std::uint64_t ticket) const;
  bool look(std::uint64_t ticket) const;
  void sweep() const;
  cudaError_t takeSlowly(bool clear);
  void wait(const std::vector<runtime::LanePosition> &positions, bool urgent);

  // isIdle() reads one line of this object.
  alignas(64) runtime::Dispatcher &dispatcher;
  mutable std::atomic<std::uint64_t> over{0}; ///< all operations up to this ticket are over
  std::atomic<std::uint64_t> submitted{0}, blocking{0}, legacy{0};
  const std::function<Lanes(std::uint32_t)> openLanes;
  std::mutex mutex;                      ///< for submission
  std::map<std::uint32_t, Group> groups; ///< groups by class; guarded by `mutex`
  mutable std::mutex looking;            ///< guards the tracks' lists; never held while waiting
  mutable std::deque<Track> tracks;      ///< never removed
  alignas(64) std::atomic<int> error{cudaSuccess};
  std::atomic<bool> anyFailed{false}; ///< whether a track has failed
};

} // namespace tally::hooks

#endif
