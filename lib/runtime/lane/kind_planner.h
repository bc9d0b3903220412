// What a lane launches an operation as: its kind, and what that needs of the device.
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

  /// Picks the operation's kind when it is first looked at. On failure its stream has failed.
  bool prepare(Operation &operation);
  /// The plan of a kernel that there is nothing to choose for: it holds what it took.
  std::shared_ptr<LaunchPlan> byIdentity(const Operation &operation);
  /// While nothing uses the save area that there is. False where there is no such memory: what
  /// needs it gets another kind.
  bool growSaveArea(std::uint64_t least);

private:
  PlanRules rules() const;
  void reconsider(Operation &operation);
  bool isOutdated(const Operation &operation) const;
  void leaveHeadroom(Operation &operation);

  LaneCore &core;
  using IdentityKey = std::pair<std::uint64_t, LoadedKernel::ShapeKey>;
  std::map<IdentityKey, std::shared_ptr<LaunchPlan>> plansByIdentity;
};

} // namespace tally::runtime

#endif
