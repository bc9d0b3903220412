// Options of a lane, and its counters.
#ifndef TALLY_LIB_RUNTIME_LANE_LANE_OPTIONS_H
#define TALLY_LIB_RUNTIME_LANE_LANE_OPTIONS_H

#include "planning/headroom.h"
#include "planning/loaded_kernel.h"
#include "resources/confined_streams.h"
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
  /// States in one half of the ring: at least as many as are under way when a batch is sent, so
  /// that no state of the half that is entered is in use. Entering a half clears it, so a larger
  /// ring is cleared less often.
  std::size_t halfRing = 1024;
  /// Longest time that a request may wait for a block.
  Nanoseconds bound{20000};
  /// Longest total time of kernels that cannot yield and are sent ahead. The host's turn between
  /// two batches is nearly as long as the bound, so within one bound the device would idle for a
  /// part of it.
  Nanoseconds mostAhead() const { return 2 * bound; }
  double boundsToDrain = 3; ///< PlanRules
  /// Percentage of an SM that pausing work leaves free at most; 0: no work pauses.
  std::uint32_t reserve = 25;
  const Headroom *headroom = nullptr; ///< the headroom to leave; the dispatcher sets it
  bool limitsSms = true;              ///< PlanRules; the dispatcher sets it from the policy
  /// Whether kinds are chosen by measuring launches; and the store of measurements, nullptr: none.
  bool measures = false;
  ProfileStore *profiles = nullptr;
  /// Above 0: kernels that cannot yield run on a stream with this many of the device's SMs.
  std::uint32_t smsOfNonPreemptible = 0;
  /// The lane has a stream of each size. Variants go there while the policy gives best-effort work
  /// a part of the SMs.
  ConfinedSizes confinedSizes;
  /// Whether work that cannot yield may be sent behind a wait of the lane's stream.
  bool waits = true;
  /// Whether lanes test that their streams may wait (Lane::tryWaits()). Else they rely on the
  /// device's answer.
  bool triesWaits = false;
  /// Called with a text about a stream whose wait makes no progress; may be empty.
  std::function<void(const std::string &)> warn;
  /// Trace that records when each launch ran; nullptr: no trace. `number`: the lane's in the trace.
  Trace *trace = nullptr;
  std::uint8_t number = 0;
};

/// Counts of a lane's work. The dispatcher's thread writes them; any thread may read them.
struct LaneCounters {
  std::array<std::atomic<std::uint64_t>, allKinds.size()> launchesByKind{};
  std::atomic<std::uint64_t> finishedLaunches{0}, ///< without failed and launchUserKernel's
      physicalLaunches{0}, yields{0}, savedBlocks{0},
      saveAreasRefused{0};             ///< no memory for a save area, so a launch took another kind
  std::atomic<std::uint64_t> waits{0}; ///< waits of the stream for an earlier launch
  std::atomic<std::uint64_t> confinedLaunches{0}; ///< physical launches on streams of some SMs
  std::atomic<std::uint32_t> confinedSms{0};      ///< of the newest of these; 0: none so far

  bool hasLaunched() const { return physicalLaunches.load() != 0; }
};

/// Cheaper than an atomic addition; only for a counter that a single thread writes.
inline void countOne(std::atomic<std::uint64_t> &counter) {
  counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

} // namespace tally::runtime

#endif
