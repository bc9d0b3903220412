// Durations of a client's requests. Requests may overlap, and an end does not say which request
// ends. The oldest open request is taken: this is exact if requests end in the order in which they
// began, and right on average in any case.
#ifndef TALLY_LIB_RUNTIME_REQUESTS_REQUEST_TIMES_H
#define TALLY_LIB_RUNTIME_REQUESTS_REQUEST_TIMES_H

#include "tally/runtime/control_word.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

namespace tally::runtime {

/// Thread-safe; no locks, no allocation.
class RequestTimes {
public:
  struct Ended {
    Nanoseconds took;
    std::uint64_t range;
  };
  /// Begins a request. `range`: the profiler's range (ranges.h), or 0.
  void begin(Nanoseconds now, std::uint64_t range = 0) {
    Request &request = requests[begun.fetch_add(1) % requests.size()];
    request.range = range;
    request.start = now.count();
  }
  /// Ends a request that has begun. Returns nothing where more than 64 are open.
  std::optional<Ended> end(Nanoseconds now) {
    std::uint64_t number = ended.fetch_add(1);
    bool isKept = begun.load() - number <= requests.size();
    Request &request = requests[number % requests.size()];
    // Take the time only once: another thread may have the number and not have stored its time yet.
    std::int64_t start = request.start.exchange(none);
    if (!isKept || start == none)
      return std::nullopt;
    return Ended{now - Nanoseconds(start), request.range.load()};
  }

private:
  static constexpr std::int64_t none = 0; ///< the clock counts from the start of the system
  struct Request {
    std::atomic<std::int64_t> start{none};
    std::atomic<std::uint64_t> range{0};
  };
  std::atomic<std::uint64_t> begun{0}, ended{0};
  std::array<Request, 64> requests{};
};

} // namespace tally::runtime

#endif
