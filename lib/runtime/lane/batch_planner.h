// Which of a lane's operations go out next, and as what.
#ifndef TALLY_LIB_RUNTIME_LANE_BATCH_PLANNER_H
#define TALLY_LIB_RUNTIME_LANE_BATCH_PLANNER_H

#include "lane/kind_planner.h"
#include "lane/lane_core.h"
#include "lane/stream_waits.h"

#include <cstddef>
#include <cstdint>
#include <optional>

namespace tally::runtime {

/// For the dispatcher's thread.
class BatchPlanner {
public:
  BatchPlanner(LaneCore &core, const StreamWaits &waits)
      : core(core), pipeline(core.pipeline), waits(waits), kinds(core) {}

  /// Gives the batch what may go. Nothing, where nothing may.
  void plan(Batch &batch, const Gate &gate, const Permit &permit);
  /// Gives the batch what comes next as far as it may be late. Returns whether there was any.
  bool addLate(Batch &batch);
  /// Whether what was sent behind a wait of the stream's may go under that decision.
  bool mayGo(Batch &batch, const Decision &decision);
  /// What is left of kernels under way that cannot yield: Lane::nonPreemptibleLeft().
  Nanoseconds nonPreemptibleLeft() const;
  /// Since when a launch has been waiting that the policy did not let go for its duration.
  std::optional<Nanoseconds> heldBackSince() const { return heldSince; }
  void noteGone() { heldSince.reset(); }

private:
  struct Budget {
    Nanoseconds time{0}, batchTime{0};
    std::uint64_t guardBlocks = 0;
    Decision decision;                 // Permit's
    Nanoseconds nonPreemptibleLeft{0}; // Gate's
  };

  bool mayStart(Operation &operation);
  bool planItem(std::size_t index, Batch &batch, Budget &used);
  bool fitsSms(BatchItem &item, std::uint32_t sms) const;
  bool planYielding(BatchItem &item, const Batch &batch, Budget &used);
  bool reserveList(BatchItem &item, const Batch &batch);
  bool growSaveArea(BatchItem &item, const Batch &batch);
  // nonpreemptible_admission.cpp: when what cannot yield goes.
  static void predict(BatchItem &item);
  bool isShort(const Operation &operation) const;
  bool isBetweenNonPreemptible(std::size_t index, const Batch &batch, const Budget &used);
  bool planCall(BatchItem &item, const Batch &batch);
  bool planNonPreemptible(BatchItem &item, const Batch &batch, const Budget &used);
  bool fitsBehind(const BatchItem &item, const Batch &batch, const Budget &used) const;
  bool goesByDuration(Nanoseconds predicted, const Decision &decision);

  LaneCore &core;
  Pipeline &pipeline;
  const StreamWaits &waits;
  KindPlanner kinds;
  std::optional<Nanoseconds> heldSince;
};

} // namespace tally::runtime

#endif
