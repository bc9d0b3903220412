// For how long nothing pauses once a pause has met its deadline: longer each time, since who does
// not fit beside what pauses may never do; short at first, since most that are late were just long.
#ifndef TALLY_LIB_RUNTIME_DISPATCH_PAUSE_BACKOFF_H
#define TALLY_LIB_RUNTIME_DISPATCH_PAUSE_BACKOFF_H

#include "tally/runtime/control_word.h"

#include <algorithm>

namespace tally::runtime {

/// A pure value; for one thread.
class PauseBackoff {
public:
  static constexpr Nanoseconds first = std::chrono::milliseconds(10),
                               longest = std::chrono::seconds(1);

  /// A pause met its deadline. Returns for how long none follows.
  Nanoseconds miss(Nanoseconds now) {
    Nanoseconds taken = next;
    until = now + taken;
    next = std::min(2 * next, longest);
    return taken;
  }
  /// A pause ended with the requests that it was for.
  void endWell() { next = first; }
  bool holds(Nanoseconds now) const { return now < until; }

private:
  Nanoseconds next = first, until{0};
};

} // namespace tally::runtime

#endif
