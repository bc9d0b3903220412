// Compares runs of the same programs in processes with and without tally.
#ifndef TALLY_TEST_HOOKS_STREAM_PROGRAMS_COMPARE_H
#define TALLY_TEST_HOOKS_STREAM_PROGRAMS_COMPARE_H

#include <cstdint>
#include <string>
#include <vector>

namespace tally::programs {

struct CompareOptions {
  std::uint64_t seed = 1, programs = 100;
  std::vector<std::string> modes;     ///< names; empty: all
  std::vector<std::string> arguments; ///< for the generator, passed on
  int runs = 1;                       ///< of each program in a mode
  int patience = 60;                  ///< seconds without a program's end that are a hang
};

/// Runs programs `seed` to `seed + programs - 1` in this executable's own children: in the plain
/// way and in each mode. Says on standard output what differs, and a reduced program for the first
/// difference. Returns how many programs differed.
int compare(const CompareOptions &options);

} // namespace tally::programs

#endif
