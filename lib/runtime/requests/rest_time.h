// How long a stream of high priority stays open behind its last work. Who lets best-effort work go
// on at once and is asked for it back a moment later has cost that request a wake, and who waits in
// vain the work that time. So it is as long as next calls took to come lately, where they came
// soon: a server that has a request in line makes its first call within some microseconds, always
// the same ones. Until enough of that was seen it is the longest.
#ifndef TALLY_LIB_RUNTIME_REQUESTS_REST_TIME_H
#define TALLY_LIB_RUNTIME_REQUESTS_REST_TIME_H

#include "tally/runtime/control_word.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace tally::runtime {

/// For one thread.
class RestTime {
public:
  /// About what it costs to let best-effort work go on and ask it to yield again: to wait no longer
  /// than that is at most twice as bad as to know when the next call comes.
  static constexpr Nanoseconds longest = std::chrono::microseconds(12);
  /// How much later than those before the next call may come, and be seen.
  static constexpr Nanoseconds doubt = std::chrono::microseconds(2);

  /// A stream's next call came so long after the work before was over; anything above longest: not
  /// soon.
  void see(Nanoseconds gap) {
    gaps[count++ % gaps.size()] = std::clamp(gap, Nanoseconds(0), never);
    if (count < fewest)
      return;
    // All but one of the soon ones: the thread that calls may have lost its core once.
    Nanoseconds last{0}, lastButOne{0};
    for (std::size_t i = 0; i < std::min(count, gaps.size()); ++i)
      if (Nanoseconds each = gaps[i]; each <= longest && each >= lastButOne) {
        lastButOne = std::min(each, last);
        last = std::max(each, last);
      }
    time = std::min(lastButOne + doubt, longest);
  }
  Nanoseconds now() const { return time; }

private:
  static constexpr std::size_t fewest = 16;
  static constexpr Nanoseconds never = longest + Nanoseconds(1);
  std::array<Nanoseconds, 64> gaps{};
  std::size_t count = 0;
  Nanoseconds time = longest;
};

} // namespace tally::runtime

#endif
