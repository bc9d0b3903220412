// What a lane sends together, under one epoch, and what it has under way.
#ifndef TALLY_LIB_RUNTIME_LANE_BATCH_H
#define TALLY_LIB_RUNTIME_LANE_BATCH_H

#include "base/list_ring.h"
#include "lane/lane_queue.h"
#include "lane/operation.h"

#include "tally/policy/policy.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

namespace tally::runtime {

/// One thing of a batch on the device.
struct BatchItem {
  Operation *operation = nullptr;
  bool dropped = false;  ///< nothing was sent: it, or its stream, had failed
  bool canYield = false; ///< guard, kinds with workers
  bool heavy = false;    ///< ends its batch
  /// Of what cannot yield and is a kernel: what it should take, and the most that it should.
  Nanoseconds expected{0}, predicted{0};
  bool leavesVariant = false; ///< the user's kernel goes, though there is a variant
  bool completes = false;     ///< the operation ends with it, unless it yields
  bool resumes = false;       ///< the operation was launched before, and yielded
  bool isTimed = false;       ///< for what its blocks take
  bool isMeasured = false;    ///< it goes alone for that, and nothing is sent until it is back
  PhysicalLaunch launch;
  std::optional<ListRing::Region> list;
  std::shared_ptr<LaunchPlan> plan; ///< of launches

  /// Whether the launch goes between blocks because of what these are known to take.
  bool goesByShape() const;
};

/// By what the state of a launch says that it is done: VariantLaunch::countsBlocks().
struct AwaitedLaunch {
  bool countsBlocks = false, saves = false;
  std::uint32_t blocks = 0;
};

struct Batch {
  std::uint64_t epoch = 0, marker = 0;
  const MappedMemory *markerAt = nullptr; ///< where the marker is written
  /// The state of a launch, by which its stream lets it go; 0: it waits for none.
  DevicePtr behind = 0;
  AwaitedLaunch behindLaunch;
  std::size_t slot = 0;       ///< of the mirrors
  std::size_t firstState = 0; ///< in the ring; item i has the i-th from there
  bool statesComing = false;  ///< the marker stands behind a copy of the states
  bool shares = false;
  bool mayBeAsked = false; ///< requests come
  std::uint32_t sms = allSms;
  Nanoseconds sentAt{0}, issuedAt{0}; ///< before its first call, behind its last one
  bool hasOthers = false;             ///< other lanes had something under way
  /// Of a timed launch that waits for an application's stream: what the device writes once it has
  /// waited, or 0; and when that was seen, or zero.
  std::uint64_t beginMark = 0;
  Nanoseconds begunAt{0};
  Nanoseconds notBegunAt{0}; ///< when it was last seen not to have begun
  Nanoseconds waitedFrom{0}; ///< since when the device could have worked on it
  Nanoseconds askedAt{0};    ///< when it was seen that it was told to yield
  std::vector<BatchItem> items;
  /// Puts behind the items. The host makes them once all of these are done, on the application's
  /// stream, where nothing is under way then.
  std::vector<Operation *> late;
  std::uint64_t range = 0;                  ///< for a profiler
  std::shared_ptr<std::atomic<bool>> ended; ///< of its call, which has to end before the marker

  bool canYield() const;
  bool pauses() const; ///< all of it
  /// What its kernels that cannot yield should take at most, with one more: one of them may take
  /// longer than is expected of it.
  Nanoseconds nonPreemptible(const BatchItem *more = nullptr) const;
  /// Its marker was written.
  bool isReached() const;
  /// For streams that wait until it is.
  WordWait isBack() const;
  /// Operations that are over with it.
  std::size_t completed() const;
};

/// What a lane has taken on, in order. For the dispatcher's thread.
struct Pipeline {
  static constexpr std::size_t maxBatches = 3;

  /// Not finished; the first `sent` are under way.
  LaneQueue::Operations pending;
  std::size_t sent = 0;
  std::deque<Batch> batches;
  std::deque<Batch> held;   ///< the stream waits ahead of them for what is resumed; of `pending`
  std::size_t toResume = 0; ///< they come behind so many, and are not among the first `sent`
  bool draining = false;    ///< a launch yielded, and not all that was under way is back yet

  bool isHeld() const { return !held.empty(); }
  std::size_t sendable() const { return held.empty() ? pending.size() : toResume; }
  /// Whether nothing more is sent before something is back.
  bool isFull() const;
  /// For the mirrors of the next batch.
  std::size_t freeSlot() const;
  /// `of`: set to its batch.
  const BatchItem *newestThatYields(const Batch *&of) const;
  /// The front's own wait is for what has come back.
  bool waitsBehindFront() const;
  bool isBehindWait(const Batch &batch) const { return batch.behind != 0 || waitsBehindFront(); }
  /// The launch that the stream waits for; nullptr: what that was is back.
  const Operation *awaited() const;
};

} // namespace tally::runtime

#endif
