// The command line of variant_benchmark.
#ifndef TALLY_BENCHMARKS_VARIANTS_OPTIONS_H
#define TALLY_BENCHMARKS_VARIANTS_OPTIONS_H

#include "tally/support/result.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace variant_benchmark {

struct Options {
  bool help = false;
  bool emulator = false; ///< small sizes: checks that the program runs; its times mean nothing
  std::string bundle = VARIANT_KERNELS_BUNDLE;
  std::vector<double> blockMicroseconds{2, 10, 50}; ///< block times to set, each > 0
  std::uint32_t waves = 200;                        ///< waves of the user's grid
  std::uint32_t wavesPerSlice = 50;
  std::uint32_t repetitions = 15;
};

/// `arguments` without the program's name. The error names the option.
tally::Result<Options> parseOptions(std::span<char *const> arguments);

extern const char *const helpText;

} // namespace variant_benchmark

#endif
