// A scenario out of the trace of a best-effort process (TALLY_TRACE).
#ifndef TALLY_SIM_TRACE_SCENARIO_H
#define TALLY_SIM_TRACE_SCENARIO_H

#include "scenario.h"
#include "trace_file.h" // of the launcher

#include "tally/support/result.h"

namespace tally::sim {

/// The requests are the times in which high priority was active, less the turnarounds within them;
/// the training is the process's work in its order, over and over. Kernels with a variant have
/// thread blocks of `block`, or are one block if they are shorter. Fails where the trace has no
/// work, or no time with high priority active.
Result<Scenario> scenarioOf(const launcher::ProcessTrace &trace,
                            Nanoseconds block = std::chrono::microseconds(10));

} // namespace tally::sim

#endif
