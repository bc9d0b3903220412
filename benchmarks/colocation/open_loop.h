// An open loop of requests: each request arrives at a given instant, whatever became of earlier
// requests, and its latency counts from that instant.
#ifndef TALLY_BENCHMARKS_COLOCATION_OPEN_LOOP_H
#define TALLY_BENCHMARKS_COLOCATION_OPEN_LOOP_H

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace colocation {

using Clock = std::chrono::steady_clock;
using Microseconds = std::chrono::duration<double, std::micro>;

struct RequestLog {
  std::vector<double> arrivals;  ///< intended arrivals, microseconds from the beginning of the loop
  std::vector<double> latencies; ///< microseconds from the intended arrival to the end
  std::vector<double> services;  ///< microseconds from the begin of the service to the end
  std::vector<double> firstLaunches; ///< microseconds that the request's first call took the host
  double activeMicroseconds = 0;     ///< time in which the server served a request
  /// Time in which the server read the clock until the next request, and the part of that time
  /// between two reads that are far apart: another process had the server's core, which may also
  /// happen while the server serves a request.
  double waitedMicroseconds = 0, stalledMicroseconds = 0;
  Clock::time_point begin, end; ///< the first arrival, the last end

  double activeFraction() const { return activeMicroseconds / Microseconds(end - begin).count(); }
  double stalledFraction() const {
    return waitedMicroseconds == 0 ? 0 : stalledMicroseconds / waitedMicroseconds;
  }

  /// Reads the clock until `arrival`; returns the last time read.
  Clock::time_point waitUntil(Clock::time_point arrival) {
    constexpr Microseconds farApart{20};
    auto first = Clock::now(), last = first;
    while (last < arrival) {
      auto now = Clock::now();
      if (now - last > farApart)
        stalledMicroseconds += Microseconds(now - last).count();
      last = now;
    }
    waitedMicroseconds += Microseconds(last - first).count();
    return last;
  }
};

/// Serves a request at each of `arrivals`, microseconds from now in ascending order. `first` makes
/// the first call of a request. `rest` makes the other calls and returns when the request is done.
/// The loop calls `after(nextIsThere)` behind each request; its time is part of no latency unless
/// the next request is there, or arrives meanwhile. No request begins later than `limit`
/// microseconds from now, so the log may be shorter.
template <class First, class Rest, class After>
RequestLog serveOpenLoop(const std::vector<double> &arrivals, double limit, First first, Rest rest,
                         After after) {
  RequestLog log;
  auto zero = Clock::now();
  auto at = [zero](double microseconds) {
    return zero + std::chrono::duration_cast<Clock::duration>(Microseconds(microseconds));
  };
  log.begin = log.end = at(arrivals.empty() ? 0 : arrivals.front());
  for (std::size_t i = 0; i < arrivals.size(); ++i) {
    auto arrival = at(arrivals[i]);
    auto started = log.waitUntil(arrival);
    if (Microseconds(started - zero).count() > limit)
      break;
    first();
    auto launched = Clock::now();
    rest();
    log.end = Clock::now();
    log.firstLaunches.push_back(Microseconds(launched - started).count());
    log.arrivals.push_back(arrivals[i]);
    log.latencies.push_back(Microseconds(log.end - arrival).count());
    log.services.push_back(Microseconds(log.end - started).count());
    log.activeMicroseconds += Microseconds(log.end - started).count();
    after(i + 1 < arrivals.size() && at(arrivals[i + 1]) <= log.end);
  }
  return log;
}

/// The same for `count` requests whose arrivals are `meanPeriod` microseconds apart on average
/// (exponentially distributed; equal seeds give equal arrivals).
template <class First, class Rest, class After>
RequestLog serveOpenLoop(std::size_t count, double meanPeriod, std::uint64_t seed, First first,
                         Rest rest, After after) {
  std::mt19937_64 random(seed);
  std::exponential_distribution<double> gap(1 / meanPeriod);
  std::vector<double> arrivals;
  for (double at = 1000; arrivals.size() < count; at += gap(random))
    arrivals.push_back(at);
  return serveOpenLoop(arrivals, std::numeric_limits<double>::infinity(), first, rest, after);
}

} // namespace colocation

#endif
