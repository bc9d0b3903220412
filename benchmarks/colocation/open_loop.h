// An open loop of requests: each has an instant at which it arrives, whatever became of those
// before it, and its latency counts from there.
#ifndef TALLY_BENCHMARKS_COLOCATION_OPEN_LOOP_H
#define TALLY_BENCHMARKS_COLOCATION_OPEN_LOOP_H

#include <chrono>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace colocation {

using Clock = std::chrono::steady_clock;
using Microseconds = std::chrono::duration<double, std::micro>;

struct RequestLog {
  std::vector<double> latencies;     ///< microseconds from the intended arrival to the end
  std::vector<double> firstLaunches; ///< microseconds that the request's first call took the host
  double activeMicroseconds = 0;     ///< in which a request was being served
  Clock::time_point begin, end;      ///< the first arrival, the last end

  double activeFraction() const { return activeMicroseconds / Microseconds(end - begin).count(); }
};

/// Serves `count` requests whose arrivals are `meanPeriod` microseconds apart on average
/// (exponentially distributed, the same for one seed). `first` makes the first call of a request,
/// `rest` the others, and returns when the request is done; `after` is called behind each one, and
/// is part of no latency unless the next request arrives meanwhile.
template <class First, class Rest, class After>
RequestLog serveOpenLoop(std::size_t count, double meanPeriod, std::uint64_t seed, First first,
                         Rest rest, After after) {
  std::mt19937_64 random(seed);
  std::exponential_distribution<double> gap(1 / meanPeriod);
  RequestLog log;
  auto arrival = Clock::now() + std::chrono::milliseconds(1);
  log.begin = arrival;
  for (std::size_t i = 0; i < count; ++i) {
    while (Clock::now() < arrival) {
    }
    auto started = Clock::now();
    first();
    auto launched = Clock::now();
    rest();
    log.end = Clock::now();
    log.firstLaunches.push_back(Microseconds(launched - started).count());
    log.latencies.push_back(Microseconds(log.end - arrival).count());
    log.activeMicroseconds += Microseconds(log.end - started).count();
    after();
    arrival += std::chrono::duration_cast<Clock::duration>(Microseconds(gap(random)));
  }
  return log;
}

} // namespace colocation

#endif
