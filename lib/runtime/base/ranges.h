// Ranges for a profiler that listens to NVTX: requests, and best-effort batches while they are on
// the device, in the domain "tally". NVTX is a header that looks for a tool once; without a tool
// every function here only tests a boolean.
#ifndef TALLY_LIB_RUNTIME_BASE_RANGES_H
#define TALLY_LIB_RUNTIME_BASE_RANGES_H

#include <cstdint>
#include <string>

namespace tally::runtime {

/// Whether a tool listens. The first call looks for a tool.
bool rangesAreOn();

enum class RangeOf : std::uint8_t { Request, BestEffort };

/// Open and close a range, on any thread. Only where rangesAreOn().
std::uint64_t beginRange(RangeOf what, const std::string &name);
void endRange(std::uint64_t range);

} // namespace tally::runtime

#endif
