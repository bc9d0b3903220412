// What a dispatcher is made with, and what its lanes sum up to.
#ifndef TALLY_LIB_RUNTIME_DISPATCH_DISPATCHER_OPTIONS_H
#define TALLY_LIB_RUNTIME_DISPATCH_DISPATCHER_OPTIONS_H

#include "lane/lane.h"

#include "tally/runtime/any_policy.h"

#include <cstddef>
#include <cstdint>
#include <functional>

namespace tally::runtime {

struct DispatcherOptions {
  AnyPolicy policy;
  LaneOptions lane;      ///< its `profiles` must live as long as the dispatcher
  std::size_t lanes = 2; ///< of each class of best effort that there is work of; up to 16
  /// How long work that pauses waits for high-priority work of which nothing is seen to happen,
  /// before it goes on to the end of its blocks.
  Nanoseconds pauseDeadline{2000000};
  std::function<void()> prepare = [] {}; ///< called first by the thread that start() makes
};

/// Sums over all lanes.
struct LaneTotals {
  KindCounts launchesByKind{};
  std::uint64_t finishedLaunches = 0, physicalLaunches = 0, yields = 0, savedBlocks = 0,
                saveAreasRefused = 0, waits = 0;
  std::uint64_t ownStreams = 0, ownBytes = 0; ///< that lanes have on the device now
};

} // namespace tally::runtime

#endif
