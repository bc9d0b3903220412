/**
 * @file
 * A window of busy times, and what it says of them. Busy times of one server are of several kinds:
 * steps of a generation and long prompts, requests of one picture and of many.
 */
#ifndef TALLY_POLICY_BUSY_WINDOW_H
#define TALLY_POLICY_BUSY_WINDOW_H

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace tally {

/// The facts of some busy times. Times in nanoseconds.
struct BusyFacts {
  /// From so many times the usual busy time on, one is of another kind: heavy.
  static constexpr double heavy = 2;

  double middle = 0;      ///< mean of the middle half
  double error = 1;       ///< of `middle`, one standard deviation over `middle`
  double usual = 0;       ///< the longest of the middle half
  double shortest = 0;    ///< of all
  double longest = 0;     ///< of those within the limit; of all where none is
  double heavyNumber = 0; ///< part of the busy times that are heavy, 0 to 1
  double heavyPart = 0;   ///< part of all busy time that is of heavy ones, 0 to 1
  double unseenPart = 0;  ///< part of all busy time in which these have not shown yet, 0 to 1
};

/// Collects busy times. One thread at a time.
class BusyWindow {
public:
  /// Adds a busy time in nanoseconds, above 0.
  void add(double time) { times.push_back(time); }
  /// Forgets all busy times.
  void clear() { times.clear(); }
  /// The number of busy times.
  std::size_t size() const { return times.size(); }

  /// What the busy times say; there has to be at least 1. It shows after `shows` times the usual
  /// one that one is not usual, above 1. `limit`: nanoseconds.
  BusyFacts facts(double shows, double limit = std::numeric_limits<double>::infinity()) {
    std::sort(times.begin(), times.end());
    std::size_t from = times.size() / 4, to = times.size() - from;
    BusyFacts facts;
    double sum = 0, squares = 0, all = 0, number = 0, heavies = 0, unseen = 0;
    for (std::size_t i = from; i < to; ++i) {
      sum += times[i];
      squares += times[i] * times[i];
    }
    auto count = static_cast<double>(to - from);
    facts.middle = sum / count;
    double variance = std::max(squares / count - facts.middle * facts.middle, 0.0);
    // Which times are in the middle half varies too.
    constexpr double ofTrimming = 1.5;
    facts.error = ofTrimming * std::sqrt(variance / count) / facts.middle;
    facts.usual = times[to - 1];
    facts.shortest = times.front();
    auto within = std::upper_bound(times.begin(), times.end(), limit);
    facts.longest = within == times.begin() ? times.back() : *(within - 1);
    for (double each : times) {
      all += each;
      if (each > BusyFacts::heavy * facts.usual) {
        ++number;
        heavies += each;
        unseen += std::min(shows * facts.usual, each);
      }
    }
    facts.heavyNumber = number / static_cast<double>(times.size());
    facts.heavyPart = heavies / all;
    facts.unseenPart = unseen / all;
    return facts;
  }

private:
  std::vector<double> times;
};

} // namespace tally

#endif
