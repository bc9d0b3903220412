// Plans a lane's launches: the kind of each launch, and the device memory that the kind needs.
#ifndef TALLY_LIB_RUNTIME_LANE_KIND_PLANNER_H
#define TALLY_LIB_RUNTIME_LANE_KIND_PLANNER_H

#include "lane/lane_core.h"

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

namespace tally::runtime {

/// For the dispatcher's thread.
class KindPlanner {
public:
  explicit KindPlanner(LaneCore &core) : core(core) {}

  /// Picks the operation's kind at the first call for it. False: its stream has failed.
  bool prepare(Operation &operation);
  /// For a launch on `sms` of the SMs: picks kind persistent in place of guard, if the guard's
  /// blocks would leave too slowly there.
  void fitTo(std::uint32_t sms, Operation &operation);
  /// The plan of a kernel without a choice of kinds: it keeps the kernel's durations.
  std::shared_ptr<LaunchPlan> byIdentity(const Operation &operation);
  /// Grows the save area; call it while no launch uses the area. False where the device has no
  /// memory for it: launches that need it get another kind.
  bool growSaveArea(std::uint64_t least);

private:
  PlanRules rules() const;
  static void startAs(const std::shared_ptr<LaunchPlan> &plan, Operation &operation);
  void reconsider(Operation &operation);
  bool isOutdated(const Operation &operation) const;
  void leaveHeadroom(Operation &operation);

  LaneCore &core;
  using IdentityKey = std::pair<std::uint64_t, LoadedKernel::ShapeKey>;
  std::map<IdentityKey, std::shared_ptr<LaunchPlan>> plansByIdentity;
};

} // namespace tally::runtime

#endif
