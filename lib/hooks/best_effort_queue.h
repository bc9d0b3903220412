// The queue of best-effort work. Operations have tickets in the order of submission over all
// streams; one is over, as far as anybody is told, when all before it are too.
//
// Streams are spread over tracks, each a lane of the runtime. In one track the order is that of
// submission, so with one track whatever an event, a stream's wait or the legacy stream demands of
// queued operations holds by itself. Between tracks an operation starts when what it comes behind
// there is over: for the legacy stream all that was put on blocking streams before, and the
// reverse; else what its caller says. What it comes behind was submitted before it, so no two wait
// for each other.
#ifndef TALLY_LIB_HOOKS_BEST_EFFORT_QUEUE_H
#define TALLY_LIB_HOOKS_BEST_EFFORT_QUEUE_H

#include "dispatcher.h"
#include "streams.h"

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <vector>

namespace tally::hooks {

using Run = std::function<cudaError_t()>;
/// A call that has its stream as a parameter.
using RunOn = std::function<cudaError_t(cudaStream_t)>;

/// Tickets count operations from 1. Thread-safe.
class BestEffortQueue {
public:
  BestEffortQueue(runtime::Dispatcher &dispatcher, std::size_t tracks);

  /// Puts an operation behind all others of its stream, and behind those of any up to the ticket
  /// `behind`; returns its ticket. Waits while the stream's track is full.
  std::uint64_t submit(StreamState &stream, runtime::Operation operation, std::uint64_t behind = 0);
  /// The same with several, between which nothing of other threads comes on their track. Returns
  /// the last one's ticket; that of the newest operation of all where there are none.
  std::uint64_t submit(StreamState &stream, std::vector<runtime::Operation> operations,
                       std::uint64_t behind);
  /// A call of the CUDA runtime, made on the dispatcher's thread.
  std::uint64_t submit(StreamState &stream, Run run, std::uint64_t behind = 0);
  /// Runs on the calling thread when its turn comes, and returns then. `launches`: it may put a
  /// kernel on the stream, which is over before the next operation of the track starts; what that
  /// takes is remembered under `identity`.
  cudaError_t inTurn(StreamState &stream, bool launches, std::uint64_t identity, const Run &run,
                     std::uint64_t behind);

  /// Waits until that operation, and so all before it, is over. `urgent`: work of high priority
  /// waits for it, so that it need not wait for other such work.
  void wait(std::uint64_t ticket, bool urgent);
  void drain(bool urgent) { wait(submitted.load(), urgent); }
  bool isOver(std::uint64_t ticket) const { return ticket <= over.load() || look(ticket); }
  /// Whether a call may be made at once.
  bool isIdle() const { return isOver(submitted.load()) && !dispatcher.isClosed(); }
  std::uint64_t last() const { return submitted.load(); }
  /// The last operation on a stream that the legacy stream is ordered with, and on a legacy stream.
  std::uint64_t lastBlocking() const { return blocking.load(); }
  std::uint64_t lastLegacy() const { return legacy.load(); }

  /// Keeps what an operation whose call had returned came to, if it is no success.
  void keepError(cudaError_t status);
  /// The first error of such an operation; cudaSuccess if there was none. Given once where `clear`.
  cudaError_t takeError(bool clear);

private:
  struct Placed {
    std::uint64_t ticket = 0, number = 0; ///< in the queue, and in the lane
  };
  struct Track {
    explicit Track(runtime::Lane &lane) : lane(lane), order(lane) {}
    runtime::Lane &lane;
    runtime::LaneStream order;     ///< all operations are on one stream of the lane
    std::deque<Placed> unfinished; ///< those that were not seen to be over; guarded by `looking`
    /// Drops what is over.
    void sweep();
    /// The last of them up to that ticket; 0 where there is none.
    std::uint64_t numberUpTo(std::uint64_t ticket) const;
  };

  std::uint64_t put(StreamState &stream, runtime::Operation operation, std::uint64_t behind);
  Track &trackOf(StreamState &stream);
  std::vector<runtime::LanePosition> inOthers(const Track &track, std::uint64_t upTo) const;
  bool look(std::uint64_t ticket) const;

  runtime::Dispatcher &dispatcher;
  mutable std::deque<Track> tracks;
  std::mutex mutex;                           ///< of submission
  std::size_t nextTrack = 0;                  ///< guarded by it
  mutable std::mutex looking;                 ///< of the tracks' lists; never held while waiting
  mutable std::atomic<std::uint64_t> over{0}; ///< all up to there
  std::atomic<std::uint64_t> submitted{0}, blocking{0}, legacy{0};
  std::atomic<int> error{cudaSuccess};
};

} // namespace tally::hooks

#endif
