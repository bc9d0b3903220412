// A lane: one ordered queue of best-effort work on one physical stream. Application streams are
// mapped to lanes; their operations keep their order.
//
// Work goes out in batches, each batch under one epoch: the launches, then a marker that the host
// polls in mapped memory. Two batches (three if they are short) may be under way, so that the
// device has work while the host looks. A launch can have yielded only if the epoch has advanced.
// So the host reads the states that launches leave only then, and an undisturbed batch costs one
// stream write. Launches take fresh states from a ring that is cleared half by half. These rules
// make it sound to send ahead:
//
//  - All batches under way carry the same epoch. Once a launch has yielded, every later launch
//    yields without running a block, since it starts later on the same stream and the epoch only
//    grows. Under a newer epoch it would run on half a result; so a new epoch is used only once no
//    batch of an older epoch is under way.
//  - Work that cannot yield (copies, fills, slices, kernels without a variant) is sent
//    in one of two cases. Either no launch that can yield is under way before it. Or the work
//    begins a batch before which the stream waits until the state of the newest earlier launch says
//    "done". If that launch has yielded, the stream keeps waiting: launches are resumed on another
//    stream, and when they are all done, "done" is written into the state. Launches after the wait
//    that can yield carry an older epoch and run nothing then (stream_waits.h).
//  - Kernels without a variant: a request waits for all of them that are under way. Kernels whose
//    predicted durations together stay below the bound are sent ahead. A longer kernel is sent when
//    the others are about to end, a kernel of unknown duration when there are no others. A short
//    launch before such a kernel goes as the user's kernel too, so that the host need not see its
//    end in between.
//  - Work of a lower class of best effort goes only while there is no work of a higher class. Work
//    that a higher class in another lane waits for goes as work of that class, and work that high
//    priority waits for goes whatever the policy says.
//  - A put that may be late (the record of an event) never waits: it belongs to the batch
//    before it, and the host makes the put on the application's own stream when it sees that batch
//    done.
//  - A call, which works on a stream of the application, is made only when no batch is under way; a
//    launch after the call waits for that stream.
//  - After a yield the lane sends nothing until all batches under way are back. Then the lane
//    resumes the first launch that yielded and sends the rest again after it.
#ifndef TALLY_LIB_RUNTIME_LANE_LANE_H
#define TALLY_LIB_RUNTIME_LANE_LANE_H

#include "lane/batch_planner.h"
#include "lane/batch_sender.h"
#include "lane/lane_core.h"
#include "lane/lane_resume.h"
#include "lane/stream_waits.h"

#include "tally/policy/policy.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

namespace tally::runtime {

class Lane {
public:
  static Result<std::unique_ptr<Lane>> create(StreamDevice &device, LaneOptions options);
  ~Lane() { close(); }

  /// Waits for the lane's work on the device and frees the lane's streams and memory; operations
  /// that were not sent are forgotten. Waits of other threads end, as if the device had failed. No
  /// thread may call step() any more.
  void close();

  // For any thread.

  /// Puts one operation on its stream and returns its number in the lane, from 1. Blocks while the
  /// lane's queue is full; fails when the stream has failed.
  Result<std::uint64_t> submit(Operation &&operation) {
    return core.queue.submit(std::move(operation));
  }
  /// Whether the operation `number` and all before it are over. True when the lane broke.
  bool isOver(std::uint64_t number) const { return core.queue.isOver(number); }
  /// Blocks until isOver(number).
  void waitFor(std::uint64_t number) { core.queue.waitFor(number); }
  /// Makes the operations up to `number` go out whether best-effort work may run or not, since
  /// high-priority work waits for them. Wake the dispatcher afterwards.
  void inheritHighPriority(std::uint64_t number) { core.inheritance.inheritHighPriority(number); }
  /// Sets the class of the lane's operations; call it before anything is put on the lane.
  void setClass(std::uint32_t number) { core.inheritance.setClass(number); }
  /// Lets the streams of these lanes wait if the streams for resumed launches are seen to run while
  /// all the others wait. Call it before anything is put on the lanes.
  static void tryWaits(std::span<const std::unique_ptr<Lane>> lanes);
  /// Blocks until all work put on the stream so far is done; returns the stream's failure, if any.
  Result<void> wait(LaneStream &stream) { return core.queue.wait(stream); }
  const LaneCounters &counters() const { return core.counts; }
  const LaneResources &resources() const { return core.own; }
  bool hasWork() const { return core.queue.hasWork(); }

  // For the dispatcher's thread.

  /// Takes back finished batches and sends operations that may go. Returns whether anything
  /// happened.
  bool step(const Gate &gate);
  bool underWay() const { return !core.pipeline.batches.empty(); }
  /// The epoch of the batches under way; only while underWay().
  std::uint64_t epochUnderWay() const { return core.pipeline.batches.front().epoch; }
  /// Remaining time of the kernels under way that cannot yield, by the high predictions of their
  /// durations. Zero if there are none; max() without a prediction or after it has run out.
  Nanoseconds nonPreemptibleLeft() const { return planner.nonPreemptibleLeft(); }
  /// Whether all, some or none of the batches under way pause when told to.
  Pausing pausing() const;
  /// Whether launches under way that can pause leave less headroom than they should by now.
  bool lacksHeadroom() const;
  /// The SMs that work under way may use, if it can yield and shares the device with high priority.
  std::optional<std::uint32_t> sharedSms() const;
  /// Whether a stream waits for launches to be resumed; these go out even if nothing else may.
  bool isHeld() const { return core.pipeline.isHeld(); }
  /// Whether the oldest unfinished operation must go, even against the policy.
  bool inheritsHighPriority() const { return core.inheritance.isHigh(core.queue.finished()); }
  /// The class of best effort as which the oldest unfinished operation goes: the lane's, or a
  /// higher class that waits for it.
  std::uint32_t currentClass() const { return core.inheritance.classAt(core.queue.finished()); }
  /// Makes the operations up to `number` inherit a class whose work waits for them.
  void inheritClass(std::uint64_t number, std::uint32_t bestEffortClass) {
    core.inheritance.inheritClass(number, bestEffortClass, core.queue.finished());
  }
  /// Time that the lane's work has been on the device, in all and lately.
  const LaneTimes &times() const { return core.times; }
  /// Calls `each` with the clients of the operations under way and of the next operation.
  template <class Each> void forReadyClients(Each each) const {
    const Pipeline &pipeline = core.pipeline;
    for (std::size_t i = 0; i < pipeline.pending.size() && i <= pipeline.sent; ++i)
      each(pipeline.pending[i]->stream->client);
  }
  /// Since when the policy has held a launch back for its duration, if it does.
  std::optional<Nanoseconds> heldBackSince() const { return planner.heldBackSince(); }

private:
  Lane(StreamDevice &device, LaneOptions options)
      : core(device, std::move(options)), waits(core), planner(core, waits),
        sender(core, planner, waits), resume(core) {}
  Result<void> initialise();

  bool collect(const Gate &gate);
  void takeBack(const Batch &batch, const Gate &gate);
  bool endCall(Batch &batch);
  void seeBegin(Batch &batch) const;
  bool letGo(const Gate &gate);
  bool issue(const Gate &gate);
  bool send(Batch &batch, const Gate &gate);
  void failAll(const Error &error);
  void checkHealth(const Gate &gate);

  LaneCore core;
  StreamWaits waits;
  BatchPlanner planner;
  BatchSender sender;
  LaneResume resume;
  Nanoseconds lastProgress{0};
  std::optional<Nanoseconds> stillSince; // no progress since then; none: warned already
  bool closed = false;
};

} // namespace tally::runtime

#endif
