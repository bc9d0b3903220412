/**
 * @file
 * The measurements of SmControl: a window of busy times with its facts, and the numbers of SMs that
 * were found for loads of different lengths. Busy times of one server are of several kinds: steps
 * of a generation and long prompts, requests of one picture and of many.
 */
#ifndef TALLY_POLICY_SM_MEASUREMENTS_H
#define TALLY_POLICY_SM_MEASUREMENTS_H

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
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

/// Numbers of SMs by the length of usual busy times alone. Keeps the last 8 lengths that differ by
/// more than a tenth. One thread at a time.
class FoundSms {
public:
  /// What was found beside busy times of one length.
  struct Number {
    std::uint32_t sms = 0; ///< on which best-effort work ran; above 0
    double slowdown = 1;   ///< of usual busy times then; 1 or more
  };

  /// No number.
  FoundSms() = default;
  /// The numbers of a text(); none where it is malformed.
  explicit FoundSms(std::string_view text) {
    while (!text.empty()) {
      std::uint64_t alone = 0, sms = 0, millionths = 0;
      if (!read(text, alone, ' ') || !read(text, sms, ' ') || !read(text, millionths, ';') ||
          alone == 0 || sms == 0 || sms > mostSms || millionths < million) {
        *this = FoundSms();
        return;
      }
      note(static_cast<double>(alone),
           {static_cast<std::uint32_t>(sms), static_cast<double>(millionths) / million});
    }
  }

  /// A line without its end: for each number the nanoseconds of the busy time, the SMs and the
  /// slowdown in millionths, as "2000000 40 1080000;".
  std::string text() const {
    std::string line;
    for (const Entry &each : entries)
      if (each.alone > 0)
        line += std::to_string(std::llround(each.alone)) + ' ' + std::to_string(each.number.sms) +
                ' ' + std::to_string(std::llround(each.number.slowdown * million)) + ';';
    return line;
  }

  /// The number for busy times of about `alone` nanoseconds.
  std::optional<Number> find(double alone) const {
    for (const Entry &each : entries)
      if (isLike(each, alone))
        return each.number;
    return std::nullopt;
  }
  /// Keeps the number for busy times of `alone` nanoseconds, above 0.
  void note(double alone, Number number) {
    for (Entry &each : entries)
      if (isLike(each, alone)) {
        each = {alone, number};
        return;
      }
    entries[next++ % entries.size()] = {alone, number};
  }
  /// More than `sms` SMs were too many for busy times of `alone` nanoseconds. 0: forgets the
  /// number.
  void limit(double alone, std::uint32_t sms) {
    for (Entry &each : entries)
      if (isLike(each, alone) && each.number.sms > sms) {
        if (sms == 0) {
          each = {};
        } else {
          each.number.slowdown = 1 + (each.number.slowdown - 1) * sms / each.number.sms;
          each.number.sms = sms;
        }
      }
  }

private:
  struct Entry {
    double alone = 0; // 0: no entry
    Number number;
  };
  static constexpr std::uint64_t mostSms = 65536;
  static constexpr double million = 1e6;

  static bool isLike(const Entry &entry, double alone) {
    return entry.alone > 0 && std::abs(entry.alone - alone) <= entry.alone / 10;
  }
  /// Reads a number up to `separator`, and removes both from `text`.
  static bool read(std::string_view &text, std::uint64_t &value, char separator) {
    const char *last = text.data() + text.size();
    auto [end, error] = std::from_chars(text.data(), last, value);
    if (error != std::errc() || end == last || *end != separator)
      return false;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()) + 1);
    return true;
  }

  std::array<Entry, 8> entries{};
  std::size_t next = 0;
};

} // namespace tally

#endif
