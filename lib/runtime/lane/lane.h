// A lane: one ordered queue of best-effort work on one physical stream. Application streams are
// mapped to lanes; what they put there keeps its order.
//
// Work goes out in batches, each under one epoch: the launches, then a marker that is polled in
// mapped memory. Two batches, three short ones, may be under way, so that the device has work while
// the host looks. A launch can have yielded only if the epoch has advanced; so the states that
// launches leave are read back only then, and a batch that was not disturbed costs one stream
// write. Launches take fresh states from a ring that is cleared half by half. What makes sending
// ahead sound:
//
//  - Batches under way at a time carry the same epoch. Once one launch has yielded, every launch
//    behind it yields wholly, since it starts later on the same stream and the epoch only grows.
//    Under a newer epoch it would run, on half a result; so a new epoch is used only once nothing
//    of an older one is under way.
//  - What cannot yield (copies, fills, slices, kernels without a variant) is sent only when nothing
//    that can yield is under way ahead of it, or begins a batch that the stream lets go once the
//    state of the newest launch ahead says that it is done. Where that has yielded, the stream
//    waits: what has to be resumed goes out on another stream, and when all of that is done, that
//    state is written to say so. What can yield behind the wait carries an older epoch and runs
//    nothing then (stream_waits.h).
//  - Kernels without a variant: a request waits for all of them that are under way. Those whose
//    predicted durations together stay below the bound are sent ahead; a longer one is sent when
//    the others are about to be over, and one of which nothing is known when there are none. A
//    short launch in front of one goes as the user's kernel too, so that the host need not see its
//    end in between.
//  - What is of a lower class of best effort goes while there is no work of a higher one. What a
//    higher one's waits for in another lane goes as if it were of that class, and what work of high
//    priority waits for as that.
//  - A put that may be late (the record of an event) is no reason to wait: it belongs to the batch
//    of what comes before it, and the host makes it, on the application's own stream, when it
//    sees that batch done.
//  - A call, which works on a stream of the application's own, is made only when nothing at all is
//    under way; a launch behind it waits for that stream.
//  - After a yield the lane sends nothing until all that was under way is back; then the first
//    launch that yielded is resumed, and the rest is sent again behind it.
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

  /// Waits for what is on the device, and gives back what the lane has there; what was not sent is
  /// forgotten. Waits of other threads end, as if the device had failed. Nobody calls step() any
  /// more.
  void close();

  // For any thread.

  /// Puts one operation on its stream and returns its number in the lane, from 1. Blocks while the
  /// lane's queue is full; fails when the stream has failed.
  Result<std::uint64_t> submit(Operation operation) {
    return core.queue.submit(std::move(operation));
  }
  /// Whether the operation of that number is over, and so all before it. True when the lane broke.
  bool isOver(std::uint64_t number) const { return core.queue.isOver(number); }
  /// Blocks until it is.
  void waitFor(std::uint64_t number) { core.queue.waitFor(number); }
  /// What is up to that number goes out whether best-effort work may run or not: work of high
  /// priority waits for it. Wake the dispatcher afterwards.
  void inheritHighPriority(std::uint64_t number) { core.inheritance.inheritHighPriority(number); }
  /// Of what is put on it; before anything is.
  void setClass(std::uint32_t number) { core.inheritance.setClass(number); }
  /// Lets streams of these lanes wait, where those for what is resumed are seen to go on while all
  /// others wait. Before anything is put on them.
  static void tryWaits(std::span<const std::unique_ptr<Lane>> lanes);
  /// Blocks until all that was put on the stream so far is done; the stream's failure, if any.
  Result<void> wait(LaneStream &stream) { return core.queue.wait(stream); }
  const LaneCounters &counters() const { return core.counts; }
  const LaneResources &resources() const { return core.own; }
  bool hasWork() const { return core.queue.hasWork(); }

  // For the dispatcher's thread.

  /// Takes back what came back and sends what may go. Returns whether anything happened.
  bool step(const Gate &gate);
  bool underWay() const { return !core.pipeline.batches.empty(); }
  /// The epoch of what is under way; only while something is.
  std::uint64_t epochUnderWay() const { return core.pipeline.batches.front().epoch; }
  /// What is left of kernels under way that cannot yield, by the high predictions of their
  /// durations; zero without any, max() where nothing is predicted or what was has run out.
  Nanoseconds nonPreemptibleLeft() const { return planner.nonPreemptibleLeft(); }
  /// What of what is under way pauses when it is told to.
  Pausing pausing() const;
  /// Whether what is under way and pauses leaves less room than it should by now.
  bool lacksHeadroom() const;
  /// The SMs that what is under way may use, where that shares the device with high-priority work.
  std::optional<std::uint32_t> sharedSms() const;
  /// A stream waits for what has to be resumed, which goes out though nothing else does any more.
  bool isHeld() const { return core.pipeline.isHeld(); }
  /// What is next or under way must go, whatever the policy says.
  bool inheritsHighPriority() const { return core.inheritance.isHigh(core.queue.finished()); }
  /// Which class of best effort the oldest operation goes as: the lane's, or a higher one's that
  /// waits for it.
  std::uint32_t currentClass() const { return core.inheritance.classAt(core.queue.finished()); }
  /// Work of that class waits for the operations up to that number.
  void inheritClass(std::uint64_t number, std::uint32_t bestEffortClass) {
    core.inheritance.inheritClass(number, bestEffortClass, core.queue.finished());
  }
  /// For how long its work has been on the device, and what that was lately.
  const LaneTimes &times() const { return core.times; }
  /// Calls `each` with the clients of what is under way and of what is next.
  template <class Each> void forReadyClients(Each each) const {
    const Pipeline &pipeline = core.pipeline;
    for (std::size_t i = 0; i < pipeline.pending.size() && i <= pipeline.sent; ++i)
      each(pipeline.pending[i]->stream->client);
  }
  /// Since when a launch has been waiting that the policy did not let go for its duration.
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
  bool send(Batch batch, const Gate &gate);
  void failAll(const Error &error);
  void checkHealth(const Gate &gate);

  LaneCore core;
  StreamWaits waits;
  BatchPlanner planner;
  BatchSender sender;
  LaneResume resume;
  Nanoseconds lastProgress{0};
  std::optional<Nanoseconds> stillSince; // nothing has moved; none: something has, or it was said
  bool closed = false;
};

} // namespace tally::runtime

#endif
