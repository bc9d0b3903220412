// The queue of best-effort work: one lane of the runtime for the process, in the order of
// submission. Because the order is that of submission over all streams, whatever an event, a
// stream's wait or the legacy stream demands of operations in it holds by itself.
#ifndef TALLY_LIB_HOOKS_BEST_EFFORT_QUEUE_H
#define TALLY_LIB_HOOKS_BEST_EFFORT_QUEUE_H

#include "dispatcher.h"
#include "streams.h"

#include <atomic>
#include <cstdint>
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
  explicit BestEffortQueue(runtime::Dispatcher &dispatcher)
      : dispatcher(dispatcher), lane(dispatcher.assignLane()), order(lane) {}

  /// Puts an operation behind all others and returns its ticket. Waits while the queue is full.
  std::uint64_t submit(StreamState &stream, runtime::Operation operation);
  /// The same with several, between which nothing of other threads comes. Returns the last one's
  /// ticket; that of the newest operation of all where there are none.
  std::uint64_t submit(StreamState &stream, std::vector<runtime::Operation> operations);
  /// A call of the CUDA runtime, made on the dispatcher's thread.
  std::uint64_t submit(StreamState &stream, Run run);
  /// Runs on the calling thread when its turn comes, and returns then. `launches`: it may put a
  /// kernel on the stream, which is over before the next operation starts; what that takes is
  /// remembered under `identity`.
  cudaError_t inTurn(StreamState &stream, bool launches, std::uint64_t identity, const Run &run);

  /// Waits until that operation, and so all before it, is over. `urgent`: work of high priority
  /// waits for it, so that it need not wait for other such work.
  void wait(std::uint64_t ticket, bool urgent);
  void drain(bool urgent) { wait(submitted.load(), urgent); }
  bool isOver(std::uint64_t ticket) const { return lane.isOver(ticket); }
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
  std::uint64_t put(StreamState &stream, runtime::Operation operation);

  runtime::Dispatcher &dispatcher;
  runtime::Lane &lane;
  runtime::LaneStream order; ///< all operations are on one stream of the lane
  std::mutex mutex;          ///< of submission
  std::atomic<std::uint64_t> submitted{0}, blocking{0}, legacy{0};
  std::atomic<int> error{cudaSuccess};
};

} // namespace tally::hooks

#endif
