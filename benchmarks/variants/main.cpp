// The cost of a variant in time while nothing asks it to yield: the user's kernel and its variants
// take turns, and each turn gives a ratio (docs/history/results-2026-11.md).
#include "measure.h"

#include "tally/bundle/bundle_reader.h"

#include <fmt/format.h>

#include <exception>

using namespace variant_benchmark;

namespace {

constexpr Subject subjects[] = {
    {"arithmetic", 256}, {"stream", 256},     {"tiled_product", 256, 8},  {"attention", 128},
    {"reduction", 512},  {"early_exit", 256}, {"wide_block", 1024, 4, 2},
};

std::string cell(const std::optional<Ratio> &ratio) {
  return ratio ? fmt::format("{:.3f} ({:.3f}-{:.3f})", ratio->median, ratio->lower, ratio->upper)
               : "none";
}

void run(const Options &options) {
  auto device = must(options.emulator ? tally::runtime::openEmulatorDevice()
                                      : tally::runtime::openCudaDevice());
  auto bundle = must(tally::bundle::readFile(options.bundle));
  Bench bench(*device, bundle, options);
  fmt::print("{}: variant over user's kernel, median (quartiles) of {} turns\n",
             device->info().name, options.repetitions);
  fmt::print("{:<14} {:>9} {:>6}", "kernel", "block us", "waves");
  for (tally::Kind kind : tally::allKinds)
    fmt::print(" {:>22}", name(kind));
  fmt::print("\n");
  for (const Subject &subject : subjects)
    for (double time : options.blockMicroseconds) {
      Row row = bench.measure(subject, time);
      fmt::print("{:<14} {:>9.1f} {:>6}", subject.kernel, row.blockMicroseconds, row.waves);
      for (const auto &ratio : row.ratios)
        fmt::print(" {:>22}", cell(ratio));
      fmt::print("\n");
    }
}

} // namespace

int main(int count, char **arguments) {
  auto options = parseOptions({arguments + 1, static_cast<std::size_t>(count - 1)});
  if (!options) {
    fmt::print(stderr, "variant_benchmark: {}\n", options.error().message);
    return 1;
  }
  if (options->help) {
    fmt::print("{}", helpText);
    return 0;
  }
  try {
    run(*options);
  } catch (const std::exception &error) {
    fmt::print(stderr, "variant_benchmark: {}\n", error.what());
    return 1;
  }
  return 0;
}
