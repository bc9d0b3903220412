// A bound on the work ahead of the device, which grows where it left the device without work.
//
// A thread that pauses for longer than the bound leaves the device without work. Without the bound
// the thread would have put that work on the stream earlier. After each such case the bound
// doubles, up to four times the bound that was asked for.
#ifndef TALLY_LIB_HOOKS_ENGINE_GROWING_BOUND_H
#define TALLY_LIB_HOOKS_ENGINE_GROWING_BOUND_H

#include "tally/runtime/control_word.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace tally::hooks {

/// Not thread-safe.
class GrowingBound {
public:
  explicit GrowingBound(runtime::Nanoseconds bound) : bound(bound), grown(bound) {}

  /// The bound that was asked for.
  runtime::Nanoseconds asked() const { return bound; }
  runtime::Nanoseconds now() const { return grown; }

  /// A thread has waited for the bound, until `until`. `rests`: how often the program has waited
  /// for all of its work so far.
  void waited(runtime::Nanoseconds until, std::uint64_t rests) {
    waitedUntil = until;
    restsThen = rests;
  }
  /// The stream has no work on the device. The bound is not the cause where the program has itself
  /// waited for the work. Nor is it right after a wait for the bound: then the work took less time
  /// than expected.
  void ranDry(runtime::Nanoseconds at, std::uint64_t rests) {
    runtime::Nanoseconds since = std::exchange(waitedUntil, runtime::Nanoseconds(0));
    if (since != runtime::Nanoseconds(0) && at - since >= bound / 2 && rests == restsThen)
      grown = std::min(2 * grown, most * bound);
  }

private:
  static constexpr int most = 4;
  const runtime::Nanoseconds bound;
  runtime::Nanoseconds grown;
  runtime::Nanoseconds waitedUntil{0}; ///< zero: no thread has waited since the device last ran dry
  std::uint64_t restsThen = 0;
};

} // namespace tally::hooks

#endif
