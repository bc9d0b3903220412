// How far work may be ahead of the device: a bound, and more of it where the bound left the device
// without work.
//
// A thread that pauses for longer than the bound leaves the device without work, which it would
// have put on the stream before if it had not been made to wait. Where that is seen the work may be
// twice as far ahead from then on, up to four times the bound.
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

  /// What was asked for.
  runtime::Nanoseconds asked() const { return bound; }
  runtime::Nanoseconds now() const { return grown; }

  /// A thread has waited for the bound, until now. `rests`: how often the program has waited for
  /// all of its work so far.
  void waited(runtime::Nanoseconds until, std::uint64_t rests) {
    waitedUntil = until;
    restsThen = rests;
  }
  /// The device has no work of the stream's. It is no fault of the bound's where the program has
  /// waited for that itself, nor right behind a wait for the bound: then work takes less than was
  /// expected.
  void ranDry(runtime::Nanoseconds at, std::uint64_t rests) {
    runtime::Nanoseconds since = std::exchange(waitedUntil, runtime::Nanoseconds(0));
    if (since != runtime::Nanoseconds(0) && at - since >= bound / 2 && rests == restsThen)
      grown = std::min(2 * grown, most * bound);
  }

private:
  static constexpr int most = 4;
  const runtime::Nanoseconds bound;
  runtime::Nanoseconds grown;
  runtime::Nanoseconds waitedUntil{0}; ///< zero: nobody has since the device last had no work
  std::uint64_t restsThen = 0;
};

} // namespace tally::hooks

#endif
