// How long no work pauses after a pause has met its deadline. The time doubles with each such
// pause, since a request that does not fit beside paused work may never fit. It is short at first,
// since most late requests just took long.
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

  /// Call this when a pause met its deadline. Returns for how long no pause follows.
  Nanoseconds miss(Nanoseconds now) {
    Nanoseconds taken = next;
    until = now + taken;
    next = std::min(2 * next, longest);
    return taken;
  }
  /// Call this when a pause ended because its requests were over.
  void endWell() { next = first; }
  bool holds(Nanoseconds now) const { return now < until; }

private:
  Nanoseconds next = first, until{0};
};

} // namespace tally::runtime

#endif
