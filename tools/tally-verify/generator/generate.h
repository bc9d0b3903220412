// Generates random programs from a seed, the same on every machine.
#ifndef TALLY_VERIFY_GENERATOR_GENERATE_H
#define TALLY_VERIFY_GENERATOR_GENERATE_H

#include "program.h"

#include <cstdint>

namespace tally::verify {

struct GenerateOptions {
  /// For a device: more blocks, and a delay, so that requests to yield find blocks in flight.
  bool large = false;
};

/// Returns a small kernel. About a quarter of the seeds use features that many kernels lack: exits
/// by some threads before a barrier, barriers of some warps, functions with grid registers, waits.
Program generate(std::uint64_t seed, const GenerateOptions &options = {});

} // namespace tally::verify

#endif
