// Compares runs of the same programs in processes with and without Tally.
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
  int runs = 1;                       ///< runs of each program in a mode
  int patience = 60;                  ///< seconds without the end of a program that count as a hang
};

/// Runs programs `seed` to `seed + programs - 1` in this executable's own children: plainly and in
/// each mode. Prints each difference, and a reduced program for the first one. Returns how many
/// programs differed.
int compare(const CompareOptions &options);

} // namespace tally::programs

#endif
