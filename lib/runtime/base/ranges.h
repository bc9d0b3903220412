// Ranges for a profiler that listens to NVTX: requests, and best-effort batches while they are on
// the device, in a domain of their own ("tally"). NVTX is a header that looks for a tool once;
// where there is none everything here is a test of a boolean.
#ifndef TALLY_LIB_RUNTIME_BASE_RANGES_H
#define TALLY_LIB_RUNTIME_BASE_RANGES_H

#include <cstdint>
#include <string>

namespace tally::runtime {

/// Whether a tool listens. Asked of the system the first time.
bool rangesAreOn();

enum class RangeOf : std::uint8_t { Request, BestEffort };

/// Opens a range, and closes it, on whatever thread. Only where rangesAreOn().
std::uint64_t beginRange(RangeOf what, const std::string &name);
void endRange(std::uint64_t range);

} // namespace tally::runtime

#endif
