// Runs the same programs again and again under mixed load, and checks that memory and latency do
// not grow.
#ifndef TALLY_TEST_HOOKS_STREAM_PROGRAMS_ENDURE_H
#define TALLY_TEST_HOOKS_STREAM_PROGRAMS_ENDURE_H

#include "execute.h"
#include "generate.h"

namespace tally::programs {

struct EndureOptions {
  int seconds = 0;
  int requestEvery = 2000; ///< microseconds, at most
  std::uint64_t seed = 1, programs = 100;
  GeneratorOptions generator;
  ExecuteOptions execute;
};

/// Writes a line for each tenth of the time: programs, resident memory, the requests' latency.
/// Returns 0 where every program gave its first result again, every request's answer was right, and
/// the last tenth has neither 10 % (and 8 MiB) more memory than the second tenth, nor twice its
/// median latency.
int endure(const EndureOptions &options);

} // namespace tally::programs

#endif
