// Code that the fuzz targets share: libFuzzer's entry point, and the end of a run that found a
// failure.
#ifndef TALLY_FUZZ_FUZZER_H
#define TALLY_FUZZ_FUZZER_H

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

/// Runs one input. Returns 0; any failure ends the process.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size);

namespace tally::fuzz {

inline std::string_view textOf(const std::uint8_t *data, std::size_t size) {
  return {reinterpret_cast<const char *>(data), size};
}

/// Ends the run if `holds` is false.
inline void require(bool holds, std::string_view what) {
  if (holds)
    return;
  std::fprintf(stderr, "fuzz: %.*s\n", static_cast<int>(what.size()), what.data());
  std::abort();
}

} // namespace tally::fuzz

#endif
