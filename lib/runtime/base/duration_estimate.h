// Recent durations of launches of one kernel and shape, and the prediction for the next launch.
#ifndef TALLY_LIB_RUNTIME_BASE_DURATION_ESTIMATE_H
#define TALLY_LIB_RUNTIME_BASE_DURATION_ESTIMATE_H

#include "tally/runtime/control_word.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace tally::runtime {

/// DeviceInfo::launchTurn of a GPU: on an H100 the shortest kernels take 11 us from the call until
/// the host has seen their end, and 2 us on the device.
constexpr Nanoseconds usualLaunchTurn{10'000};

/// Not thread-safe. Durations of 1 ns to 4 s; longer ones count as 4 s.
class DurationEstimate {
public:
  bool known() const { return samples != 0; }
  std::uint64_t count() const { return samples; }
  /// Mean of the recent launches; zero while nothing is known.
  Nanoseconds mean() const { return Nanoseconds(static_cast<std::int64_t>(average)); }
  /// Second longest of the last 64 durations; with fewer than 32 durations the longest, so that
  /// little knowledge predicts too much. (A host that was stopped for a moment during a measurement
  /// must not make a short kernel look long for 64 launches.)
  Nanoseconds high() const { return Nanoseconds(samples < last.size() / 2 ? first : second); }

  void add(Nanoseconds took) {
    auto sample = static_cast<std::uint32_t>(
        std::clamp<std::int64_t>(took.count(), 1, std::int64_t{UINT32_MAX}));
    average = samples == 0 ? sample : average + (sample - average) / 4;
    std::uint32_t forgotten = std::exchange(last[samples++ % last.size()], sample);
    if (forgotten < second)
      rank(sample);
    else
      rankAll();
  }

private:
  void rank(std::uint32_t sample) {
    second = std::max(second, std::min(first, sample));
    first = std::max(first, sample);
  }
  void rankAll() {
    first = second = 0;
    for (std::size_t i = 0; i < std::min<std::size_t>(samples, last.size()); ++i)
      rank(last[i]);
  }

  std::uint64_t samples = 0;
  double average = 0;
  std::uint32_t first = 0, second = 0; ///< the two largest of `last`
  std::array<std::uint32_t, 64> last{};
};

} // namespace tally::runtime

#endif
