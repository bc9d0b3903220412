// What a simulation runs: requests, a training, a device and the costs of its calls.
#ifndef TALLY_SIM_SCENARIO_H
#define TALLY_SIM_SCENARIO_H

#include "tally/policy/policy.h"

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tally::sim {

using Nanoseconds = std::chrono::nanoseconds;

inline Nanoseconds fromMicroseconds(double value) {
  return Nanoseconds(static_cast<std::int64_t>(std::llround(value * 1000)));
}

/// A kernel of the training. With the device to itself, `blocks` of its thread blocks run at a
/// time, one on each SM, and each takes `block`.
struct TrainingKernel {
  std::string name;
  Nanoseconds duration{0};  ///< of the whole kernel, alone on the device; above 0
  Nanoseconds block{0};     ///< of one thread block; 0 or more than `duration`: one wave
  bool hasVariants = false; ///< a persistent variant; else the kernel is non-preemptible
  Nanoseconds host{0};      ///< time from the launch before to this launch in the program

  /// How often the kernel fills the device with blocks.
  std::uint32_t waves() const {
    if (block <= Nanoseconds(0) || block >= duration)
      return 1;
    return static_cast<std::uint32_t>(
        std::llround(static_cast<double>(duration.count()) / static_cast<double>(block.count())));
  }
};

/// The requests of one server, in an open loop.
struct Requests {
  std::vector<Nanoseconds> services; ///< GPU times, alone; taken in turn. Not empty, each above 0
  double load = 0.3;                 ///< mean service time over mean time between arrivals
  /// Arrivals; empty: exponential times between arrivals, by `seed`.
  std::vector<Nanoseconds> arrivals;
  /// A closed loop instead: the next request comes so long after the end of the one before.
  std::optional<Nanoseconds> think;
  std::uint64_t seed = 1;
  /// Whether requests that wait for each other are one busy time, as where Tally sees requests by
  /// a stream's calls. False: each is a request scope of its own.
  bool merged = true;
  /// Part of the SMs that a request fills, 0 to 1; taken in turn, not empty. Best-effort work may
  /// use the rest beside it.
  std::vector<double> fills{1};
  /// How much longer a request takes while best-effort work has all SMs beside it: 0.5 for half as
  /// long again. On a part of the SMs it is that part of it. Taken in turn, not empty.
  std::vector<double> slowdown{0.5};

  /// What a request does to the device.
  struct Work {
    Nanoseconds service{0};
    double fills = 1, slowdown = 0.5;
  };
  /// The work of the request with this number.
  Work work(std::size_t number) const {
    return {services[number % services.size()], fills[number % fills.size()],
            slowdown[number % slowdown.size()]};
  }
};

/// Times that calls and the device take, of an H100 and an H200 (docs/history/results-2026-11.md).
struct Costs {
  Nanoseconds launch{3500}; ///< a launch call of the dispatcher
  Nanoseconds call{1300};   ///< another call of the driver
  Nanoseconds write{3000};  ///< from the call that writes the control word to running blocks
  Nanoseconds marker{1500}; ///< from a stream write on the device to the host's sight
  Nanoseconds begin{2000};  ///< from one kernel of a stream to the next
  Nanoseconds look{400};    ///< one look of the dispatcher's thread over its lanes
};

struct Scenario {
  std::uint32_t smCount = 132;
  bool greenContexts = true; ///< the device can confine work to a part of the SMs
  Requests requests;
  std::vector<TrainingKernel> training; ///< one step; not empty
  Nanoseconds step{0};                  ///< of a step alone on the device, plain; above 0
  std::uint32_t stepsAhead = 2;         ///< steps that the program is ahead of the device
  Costs costs;
  std::string policy;                               ///< as TALLY_POLICY has it; "": priority
  Nanoseconds bound{std::chrono::microseconds(20)}; ///< as TALLY_BOUND_US has it
  Nanoseconds length{std::chrono::seconds(10)};     ///< virtual time
};

} // namespace tally::sim

#endif
