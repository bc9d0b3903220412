// Options of a dispatcher, and the sums over its lanes.
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
  std::size_t lanes = 2; ///< lanes of each class of best effort that has streams; up to 16
  /// How long work stays paused while no progress of high-priority work is seen; then it goes on to
  /// the end of its blocks.
  Nanoseconds pauseDeadline{2000000};
  std::function<void()> prepare = [] {}; ///< the first call of the thread that start() makes
};

/// Sums over all lanes.
struct LaneTotals {
  KindCounts launchesByKind{};
  std::uint64_t finishedLaunches = 0, physicalLaunches = 0, yields = 0, savedBlocks = 0,
                saveAreasRefused = 0, waits = 0, confinedLaunches = 0;
  std::uint32_t confinedSms = 0;              ///< the most of any lane's newest confined launch
  std::uint64_t ownStreams = 0, ownBytes = 0; ///< what lanes have on the device now
};

} // namespace tally::runtime

#endif
