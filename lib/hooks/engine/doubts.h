// How often a stream's estimates become doubtful.
#ifndef TALLY_LIB_HOOKS_ENGINE_DOUBTS_H
#define TALLY_LIB_HOOKS_ENGINE_DOUBTS_H

#include "tally/runtime/control_word.h"

#include <algorithm>
#include <chrono>

namespace tally::hooks {

/// At most one doubt in an interval. The interval doubles with each doubt, and is the first again
/// once a doubt was right. Not thread-safe.
class Doubts {
public:
  /// Whether there may be a doubt now; then there is one.
  bool begin(runtime::Nanoseconds now) {
    if (now - last < interval)
      return false;
    last = now;
    interval = std::min(2 * interval, longest);
    return true;
  }
  void wereRight() { interval = first; }

private:
  static constexpr runtime::Nanoseconds first = std::chrono::milliseconds(100),
                                        longest = std::chrono::milliseconds(1600);
  runtime::Nanoseconds last{0}, interval{first};
};

} // namespace tally::hooks

#endif
