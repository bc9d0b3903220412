// Random programs that have one answer (order.h).
#ifndef TALLY_TEST_HOOKS_STREAM_PROGRAMS_GENERATE_H
#define TALLY_TEST_HOOKS_STREAM_PROGRAMS_GENERATE_H

#include "program.h"

namespace tally::programs {

struct GeneratorOptions {
  int operations = 60; ///< approximate number; up to twice as many
  int threads = 0;     ///< 0: one to maxThreads
  /// Largest number of turns of a kernel's loop; some kernels make ten times as many.
  std::uint32_t rounds = 12;
  std::uint32_t words = 1024; ///< largest number of words in a buffer
};

/// Returns the same program for the same seed and options.
Program generate(std::uint64_t seed, const GeneratorOptions &options);

} // namespace tally::programs

#endif
