// The queue of best-effort work: one for the process, in the order of submission, and the thread
// that runs it one operation after the other. Because the order is that of submission over all
// streams, whatever an event, a stream's wait or the legacy stream demands of operations in it
// holds by itself.
#ifndef TALLY_LIB_HOOKS_BEST_EFFORT_QUEUE_H
#define TALLY_LIB_HOOKS_BEST_EFFORT_QUEUE_H

#include "streams.h"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace tally::hooks {

/// Runs to its end what must have ended before the next operation starts; what it only issues stays
/// in the order of its stream.
using Run = std::function<cudaError_t()>;

/// Tickets count operations from 1. Thread-safe unless said otherwise.
class BestEffortQueue {
public:
  /// `prepare` is called first, on the thread that runs operations.
  explicit BestEffortQueue(std::function<void()> prepare);
  ~BestEffortQueue() { stop(); }
  /// Waits for the operation that runs; the others are forgotten.
  void stop();

  /// Puts an operation behind all others and returns its ticket. Waits while the queue is full.
  /// What `run` returns, if it is no success, is kept for takeError().
  std::uint64_t submit(StreamState &stream, Run run);
  /// Runs on the calling thread when its turn comes, and returns then.
  cudaError_t inTurn(StreamState &stream, const Run &run);

  /// Waits until that operation, and so all before it, is over. `urgent`: work of high priority
  /// waits for it, so that it need not wait for other such work.
  void wait(std::uint64_t ticket, bool urgent);
  void drain(bool urgent) { wait(submitted.load(), urgent); }
  bool isOver(std::uint64_t ticket) const { return ticket <= completed.load(); }
  bool isIdle() const { return isOver(submitted.load()); }
  std::uint64_t last() const { return submitted.load(); }
  /// The last operation on a stream that the legacy stream is ordered with, and on a legacy stream.
  std::uint64_t lastBlocking() const { return blocking.load(); }
  std::uint64_t lastLegacy() const { return legacy.load(); }

  /// Whether somebody of high priority waits for the operation that runs. For that operation.
  bool isUrgent() const { return completed.load() < urgentUntil.load(); }

  /// The first error of an operation whose call had returned; cudaSuccess if there was none. Given
  /// once where `clear`.
  cudaError_t takeError(bool clear);

private:
  struct Operation {
    std::uint64_t ticket = 0;
    Run run;
  };
  std::uint64_t assign(StreamState &stream);
  void finish(std::uint64_t ticket, cudaError_t status);
  void loop();

  std::function<void()> prepare;
  std::mutex mutex;
  std::condition_variable changed; ///< something was submitted, or is over
  std::deque<Operation> operations;
  bool busy = false, stopping = false;
  std::atomic<std::uint64_t> submitted{0}, completed{0}, blocking{0}, legacy{0}, urgentUntil{0};
  std::atomic<int> error{cudaSuccess};
  std::thread thread;
};

} // namespace tally::hooks

#endif
