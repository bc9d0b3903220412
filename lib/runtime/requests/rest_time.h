// How long a high-priority stream stays open after its last work. If best-effort work goes on at
// once, a request that comes a moment later pays for a wake; if no request comes, best-effort work
// has lost the time. So the rest time is as long as recent next calls took to come, counting those
// that came soon: a server with a request in line makes its first call after about the same few
// microseconds each time. Until enough calls were seen, the rest time is the longest.
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
  /// About the cost of letting best-effort work go on and asking it to yield again. So waiting no
  /// longer costs at most twice as much as knowing when the next call comes.
  static constexpr Nanoseconds longest = std::chrono::microseconds(12);
  /// How much later than the calls before the next call may come and still be seen.
  static constexpr Nanoseconds doubt = std::chrono::microseconds(2);

  /// Records the time from the end of a stream's work to its next call; above `longest`: not soon.
  void see(Nanoseconds gap) {
    gaps[count++ % gaps.size()] = std::clamp(gap, Nanoseconds(0), never);
    if (count < fewest)
      return;
    // Leave out the longest soon gap: the calling thread may have lost its core once.
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
