// The application's side of a lane: submitting operations and waiting for them.
#ifndef TALLY_LIB_RUNTIME_LANE_LANE_QUEUE_H
#define TALLY_LIB_RUNTIME_LANE_LANE_QUEUE_H

#include "lane/lane_options.h"
#include "lane/operation.h"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace tally::runtime {

class LaneQueue {
public:
  using Operations = std::deque<std::unique_ptr<Operation>>;

  explicit LaneQueue(const ClockFunction &clock) : clock(clock) {}

  // For any thread.

  /// Queues the operation and returns its number, from 1. Blocks while the queue is full; fails
  /// when the stream has failed.
  Result<std::uint64_t> submit(Operation &&operation);
  /// Whether the operation `number` and all before it are over. True when the lane broke.
  bool isOver(std::uint64_t number) const { return over.load() >= number || isBroken(); }
  /// Blocks until isOver(number).
  void waitFor(std::uint64_t number);
  /// Blocks until all work put on the stream so far is done; returns the stream's failure, if any.
  Result<void> wait(LaneStream &stream);
  bool hasWork() const { return unfinished.load() != 0; }
  std::uint64_t finished() const { return over.load(); }
  bool isBroken() const { return broke; }

  // For the dispatcher's thread.

  /// Whether operations were submitted since take().
  bool hasNew() const { return isFilled.load(); }
  /// Appends the new operations to `pending`.
  void take(Operations &pending);
  /// Marks the oldest unfinished operation as over. publish() wakes the waiters.
  void finish(std::unique_ptr<Operation> operation);
  /// Fails the stream: none of its operations runs any more. Waiters see it at once.
  void fail(LaneStream &stream, const Error &error);
  /// Fails the operation alone if it has `launchFailed`, else its stream.
  void fail(Operation &operation, const Error &error);
  /// Breaks the lane: its physical stream is unusable. Forgets `pending` and new operations.
  void failAll(Operations &pending, const Error &error);
  /// Wakes threads that wait for operations that finished or failed.
  void publish();

private:
  template <class Over> void waitUntil(std::unique_lock<std::mutex> &lock, Over isSo);
  std::unique_ptr<Operation> kept(Operation &&operation);

  const ClockFunction &clock;
  std::mutex mutex;
  std::condition_variable changed; // an operation finished, or a stream failed
  std::vector<std::unique_ptr<Operation>> inbox;
  /// Finished operations, for threads that submit to use again. These threads also free what the
  /// launches hold: the dispatcher's time limits short launches, and an allocator is slow where one
  /// thread frees what another one allocates. At most as many as may be unfinished.
  std::vector<std::unique_ptr<Operation>> spent;
  std::atomic<bool> isFilled{false};
  std::atomic<std::uint64_t> unfinished{0}; // operations submitted and not finished
  std::uint64_t submitted = 0;              // guarded by the mutex
  std::atomic<std::uint64_t> over{0};
  std::optional<Error> failure; // set under the mutex
  std::atomic<bool> broke{false};

  // Used only by the dispatcher's thread.
  std::vector<std::unique_ptr<Operation>> toSpend;
  std::uint64_t finishedNow = 0; // `unfinished` still counts them
  bool hasNews = false;
};

} // namespace tally::runtime

#endif
