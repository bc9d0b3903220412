// What a lane is told when it is made, and what it counts.
#ifndef TALLY_LIB_RUNTIME_LANE_LANE_OPTIONS_H
#define TALLY_LIB_RUNTIME_LANE_LANE_OPTIONS_H

#include "planning/headroom.h"
#include "planning/loaded_kernel.h"
#include "trace/trace.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tally::runtime {

using ClockFunction = std::function<Nanoseconds()>;

struct LaneOptions {
  std::vector<Kind> kinds;
  DevicePtr control = 0; ///< the control word
  ClockFunction clock;
  /// States in one half of the ring: at least as many as there are under way when a batch is sent,
  /// so that the half that is entered holds none of these. It is cleared then, so more makes that
  /// rarer.
  std::size_t halfRing = 1024;
  /// How much of kernels that cannot yield may be sent ahead: what a request may wait for.
  Nanoseconds bound{20000};
  double boundsToDrain = 3; ///< PlanRules
  /// Percent of an SM: the most that work that pauses leaves free; with 0 nothing pauses.
  std::uint32_t reserve = 25;
  const Headroom *headroom = nullptr; ///< that it leaves; the dispatcher's to set
  bool limitsSms = true;              ///< PlanRules; the dispatcher asks the policy
  /// Whether kinds are chosen by what they are measured to take, and where that is kept, or none.
  bool measures = false;
  ProfileStore *profiles = nullptr;
  /// Above 0: kernels that cannot yield run on a stream that has so many of the device's SMs.
  std::uint32_t smsOfNonPreemptible = 0;
  /// Whether what cannot yield may be sent behind a wait of the lane's stream.
  bool waits = true;
  /// Lanes try whether their streams may wait: Lane::tryWaits(). Else they may where the device
  /// says so.
  bool triesWaits = false;
  /// Told what a stream waits for where nothing moves; or empty.
  std::function<void(const std::string &)> warn;
  /// Where it is noted what ran when, or nowhere; and the lane's number there.
  Trace *trace = nullptr;
  std::uint8_t number = 0;
};

/// What a lane has done. Written by the dispatcher's thread, read by any.
struct LaneCounters {
  std::array<std::atomic<std::uint64_t>, allKinds.size()> launchesByKind{};
  std::atomic<std::uint64_t> finishedLaunches{0}, ///< but those of launchUserKernel
      physicalLaunches{0}, yields{0}, savedBlocks{0},
      saveAreasRefused{0}; ///< the device had no memory for one, so that another kind was taken
  std::atomic<std::uint64_t> waits{0}; ///< of a lane's stream, for a launch ahead to be done

  bool hasLaunched() const { return physicalLaunches.load() != 0; }
};

/// Cheaper than an addition in one: for the only thread that writes the counter.
inline void countOne(std::atomic<std::uint64_t> &counter) {
  counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

} // namespace tally::runtime

#endif
