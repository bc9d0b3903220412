// Reads a scenario from JSON (docs/reference/tally-sim.md).
#ifndef TALLY_SIM_SCENARIO_FILE_H
#define TALLY_SIM_SCENARIO_FILE_H

#include "scenario.h"

#include "tally/support/result.h"

#include <string>
#include <string_view>

namespace tally::sim {

/// The error names the place in the text, or the member and its allowed values.
Result<Scenario> parseScenario(std::string_view text);
/// Reads a file; the error begins with the file's name.
Result<Scenario> readScenario(const std::string &path);

} // namespace tally::sim

#endif
