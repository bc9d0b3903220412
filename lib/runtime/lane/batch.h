// A batch: operations that a lane sends together under one epoch. The pipeline of a lane's batches.
#ifndef TALLY_LIB_RUNTIME_LANE_BATCH_H
#define TALLY_LIB_RUNTIME_LANE_BATCH_H

#include "base/list_ring.h"
#include "lane/lane_queue.h"
#include "lane/operation.h"
#include "resources/state_ring.h"

#include "tally/policy/policy.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

namespace tally::runtime {

/// One operation of a batch on the device, or one physical launch of it.
struct BatchItem {
  Operation *operation = nullptr;
  bool dropped = false;  ///< not sent: the operation or its stream had failed
  bool canYield = false; ///< a launch of kind guard or of a kind with workers
  bool heavy = false;    ///< the batch ends with this item
  /// For kernels that cannot yield: the expected duration and a bound on it.
  Nanoseconds expected{0}, predicted{0};
  bool leavesVariant = false; ///< the user's kernel is launched although there is a variant
  bool completes = false;     ///< the operation ends with this item, unless it yields
  bool resumes = false;       ///< the operation was launched before, and yielded
  bool isTimed = false;       ///< timed to measure the duration of its blocks
  bool isMeasured = false;    ///< sent alone to be timed; the lane sends nothing until it is back
  PhysicalLaunch launch;
  std::optional<ListRing::Region> list;
  std::shared_ptr<LaunchPlan> plan; ///< for launches, and for calls of kernels

  /// Whether the launch stops only between blocks, by a choice from the known time of its blocks.
  bool goesByShape() const;
};

/// An awaited launch, and the words of its state that tell whether it is done:
/// VariantLaunch::countsBlocks().
struct AwaitedLaunch {
  bool countsBlocks = false, saves = false;
  std::uint32_t blocks = 0;
};

struct Batch {
  std::uint64_t epoch = 0, marker = 0;
  const MappedMemory *markerAt = nullptr; ///< the word into which the marker is written
  /// Address of the launch state that the stream waits for before this batch; 0: no wait.
  DevicePtr behind = 0;
  AwaitedLaunch behindLaunch;
  std::size_t slot = 0;       ///< number of the mirror of its states
  std::size_t firstState = 0; ///< ring number of item 0's state; item i has the i-th after it
  bool statesComing = false;  ///< the marker comes after a copy of the states to the host
  bool shares = false;
  bool mayBeAsked = false; ///< requests are expected
  std::uint32_t sms = allSms;
  Nanoseconds sentAt{0}, issuedAt{0}; ///< before its first call, after its last call
  bool hasOthers = false;             ///< other lanes had batches under way
  /// For a timed launch that waits for an application's stream: the value that the device writes
  /// when the wait is over, or 0; and the time at which the host saw the value, or zero.
  std::uint64_t beginMark = 0;
  Nanoseconds begunAt{0};
  Nanoseconds notBegunAt{0}; ///< last time at which the host saw that it had not begun
  Nanoseconds waitedFrom{0}; ///< from when the device could have worked on it
  Nanoseconds askedAt{0};    ///< when the lane saw that it was told to yield
  std::vector<BatchItem> items;
  /// Puts that come after the items. The host makes them on the application's stream once all items
  /// are done.
  std::vector<Operation *> late;
  std::uint64_t range = 0; ///< the profiler's range
  /// Whether its call has ended; the marker comes after its end.
  std::shared_ptr<std::atomic<bool>> ended;

  bool canYield() const;
  bool pauses() const; ///< whether all items can pause
  /// Longest expected time of its kernels that cannot yield, and of `more`: the sum of the expected
  /// durations, and for one kernel the excess of its bound.
  Nanoseconds nonPreemptible(const BatchItem *more = nullptr) const;
  /// Whether its marker was written.
  bool isReached() const;
  /// The wait that makes a stream wait for the marker.
  WordWait isBack() const;
  /// The number of operations that end with this batch.
  std::size_t completed() const;
};

/// The operations that a lane has taken on, in order. For the dispatcher's thread.
struct Pipeline {
  /// Unfinished operations; the first `sent` are under way.
  LaneQueue::Operations pending;
  std::size_t sent = 0;
  std::deque<Batch> batches;
  std::deque<Batch> held;   ///< batches before which the stream waits for resumed launches
  std::size_t toResume = 0; ///< operations of `pending` before those of `held`
  bool draining = false;    ///< a launch yielded, and some batches are not back yet

  bool isHeld() const { return !held.empty(); }
  std::size_t sendable() const { return held.empty() ? pending.size() : toResume; }
  /// Whether the lane sends nothing more before a batch is back.
  bool isFull() const;
  /// Number of the mirror for the next batch.
  std::size_t freeSlot() const;
  /// Returns the newest item that can yield, or nullptr, and sets `of` to its batch.
  const BatchItem *newestThatYields(const Batch *&of) const;
  /// Whether a batch after the front waits; the front's own wait is over.
  bool waitsBehindFront() const;
  bool isBehindWait(const Batch &batch) const { return batch.behind != 0 || waitsBehindFront(); }
  /// The launch that the stream waits for; nullptr: that launch is back.
  const Operation *awaited() const;
};

} // namespace tally::runtime

#endif
