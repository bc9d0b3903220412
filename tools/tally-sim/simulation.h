// Runs a scenario: the runtime's own dispatcher, lanes, request scopes and policy on a SimDevice.
#ifndef TALLY_SIM_SIMULATION_H
#define TALLY_SIM_SIMULATION_H

#include "scenario.h"

#include "tally/support/result.h"

#include <cstdint>
#include <vector>

namespace tally::sim {

struct Outcome {
  std::vector<Nanoseconds> latencies; ///< from a request's arrival to its end, in this order
  std::vector<Nanoseconds> alone;     ///< likewise, with nobody else on the device
  Nanoseconds length{0};              ///< virtual time
  double active = 0;                  ///< part of the time with a request on the device, alone
  double steps = 0;                   ///< the training's steps
  double stepsAlone = 0;              ///< likewise, with nobody else on the device
  std::uint64_t yields = 0;           ///< launches that yielded
  Nanoseconds longestPause{0};        ///< longest time in which the training finished no kernel

  double bestEffort() const { return steps / stepsAlone; }
  double bestEffortOverRest() const { return bestEffort() / (1 - active); }
  double p99() const;
  double p99Alone() const;
  double p50() const;
  double p50Alone() const;
};

/// Fails where the policy's text is wrong, or the scenario names an impossible value.
Result<Outcome> simulate(const Scenario &scenario);

} // namespace tally::sim

#endif
