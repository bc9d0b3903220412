// The applications' side of a lane: what they put there, and who waits for it.
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

  /// Gives the operation its number, from 1. Blocks while the queue is full; fails when the stream
  /// has failed.
  Result<std::uint64_t> submit(Operation operation);
  /// Whether the operation of that number is over, and so all before it. True when the lane broke.
  bool isOver(std::uint64_t number) const { return over.load() >= number || isBroken(); }
  /// Blocks until it is.
  void waitFor(std::uint64_t number);
  /// Blocks until all that was put on the stream so far is done; the stream's failure, if any.
  Result<void> wait(LaneStream &stream);
  bool hasWork() const { return unfinished.load() != 0; }
  std::uint64_t finished() const { return over.load(); }
  bool isBroken() const { return broke; }

  // For the dispatcher's thread.

  /// Something was put there since take().
  bool hasNew() const { return isFilled.load(); }
  /// Appends what is new.
  void take(Operations &pending);
  /// The oldest that is not over is over. Waiters are told by publish().
  void finish(std::unique_ptr<Operation> operation);
  /// Waiters are told at once that nothing more of the stream runs.
  void fail(LaneStream &stream, const Error &error);
  /// Of it alone where it may fail by itself, else of its stream.
  void fail(Operation &operation, const Error &error);
  /// The physical stream is of no use any more. Forgets these and what is new.
  void failAll(Operations &pending, const Error &error);
  /// Wakes who waits for what finished or failed.
  void publish();

private:
  template <class Over> void waitUntil(std::unique_lock<std::mutex> &lock, Over isSo);

  const ClockFunction &clock;
  std::mutex mutex;
  std::condition_variable changed; // something finished or failed
  std::vector<std::unique_ptr<Operation>> inbox;
  /// Kernels' that are over: threads that submit others free them, since the dispatcher's time is
  /// what short launches take. As many at most as may be unfinished.
  std::vector<std::unique_ptr<Operation>> spent;
  std::atomic<bool> isFilled{false};
  std::atomic<std::uint64_t> unfinished{0}; // operations submitted and not finished
  std::uint64_t submitted = 0;              // guarded by the mutex
  std::atomic<std::uint64_t> over{0};
  std::optional<Error> failure; // set under the mutex
  std::atomic<bool> broke{false};

  // The dispatcher's side.
  std::vector<std::unique_ptr<Operation>> toSpend;
  std::uint64_t finishedNow = 0; // `unfinished` still counts them
  bool hasNews = false;
};

} // namespace tally::runtime

#endif
