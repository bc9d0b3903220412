// Decides which of a lane's operations go out next, and in which form.
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

  /// Adds to the batch the operations that may go now; may add none.
  void plan(Batch &batch, const Gate &gate, const Permit &permit);
  /// Adds to the batch the next puts as long as they may be late. Returns whether there were any.
  bool addLate(Batch &batch);
  /// Whether the decision lets a batch go that was sent behind a wait of the stream.
  bool mayGo(Batch &batch, const Decision &decision);
  /// Remaining time of kernels under way that cannot yield: Lane::nonPreemptibleLeft().
  Nanoseconds nonPreemptibleLeft() const;
  /// Since when the policy has held a launch back for its duration, if it does.
  std::optional<Nanoseconds> heldBackSince() const { return heldSince; }
  void noteGone() { heldSince.reset(); }

private:
  struct Budget {
    Nanoseconds time{0}, batchTime{0};
    std::uint64_t guardBlocks = 0, mostGuardBlocks = 0;
    Decision decision;                 // of the permit
    Nanoseconds nonPreemptibleLeft{0}; // of the gate
  };

  Budget budgetOf(const Gate &gate, const Permit &permit) const;
  bool mayStart(Operation &operation);
  bool planItem(std::size_t index, Batch &batch, Budget &used);
  bool fitsSms(BatchItem &item, std::uint32_t sms) const;
  bool mayUseSms(BatchItem &item, const Decision &decision) const;
  bool planYielding(BatchItem &item, const Batch &batch, Budget &used);
  bool reserveList(BatchItem &item, const Batch &batch);
  bool growSaveArea(BatchItem &item, const Batch &batch);
  // nonpreemptible_admission.cpp: when work that cannot yield goes.
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
