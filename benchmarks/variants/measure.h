// Measures one kernel at one block time: the user's kernel and its variants, in turns.
#ifndef TALLY_BENCHMARKS_VARIANTS_MEASURE_H
#define TALLY_BENCHMARKS_VARIANTS_MEASURE_H

#include "options.h"

#include "tally/bundle/bundle.h"
#include "tally/runtime/device.h"

#include <optional>
#include <stdexcept>
#include <string_view>

namespace variant_benchmark {

/// A kernel of the bundle: `(out, in, rounds)`. The grid's shape is (n, rows, planes).
struct Subject {
  std::string_view kernel;
  std::uint32_t threads;
  std::uint32_t rows = 1, planes = 1;
};

/// Time of a variant over that of the user's kernel.
struct Ratio {
  double median = 0, lower = 0, upper = 0; ///< quartiles
};

struct Row {
  double blockMicroseconds = 0; ///< time of a block of the user's kernel: time / waves
  std::uint32_t waves = 0;
  std::optional<Ratio> ratios[std::size(tally::allKinds)]; ///< empty without a variant
};

/// A device with the bundle's module. Errors of the device end the run as std::runtime_error.
class Bench {
public:
  Bench(tally::runtime::Device &device, const tally::bundle::Bundle &bundle,
        const Options &options);
  Row measure(const Subject &subject, double blockMicroseconds);

private:
  struct Prepared;
  Prepared prepare(const Subject &subject, std::uint32_t rounds);
  double timeUser(const Prepared &prepared);
  double timeVariant(const Prepared &prepared, tally::Kind kind);
  std::uint32_t roundsFor(const Subject &subject, double blockMicroseconds);

  tally::runtime::Device &device;
  const tally::bundle::Bundle &bundle;
  const Options &options;
  tally::runtime::ModuleId module;
  tally::runtime::StreamId stream;
  tally::runtime::DevicePtr out, in, control, state, list;
};

template <class T> T must(tally::Result<T> result) {
  if (!result)
    throw std::runtime_error(result.error().message);
  return std::move(*result);
}
inline void must(const tally::Result<void> &result) {
  if (!result)
    throw std::runtime_error(result.error().message);
}

} // namespace variant_benchmark

#endif
