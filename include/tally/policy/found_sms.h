/**
 * @file
 * The numbers of SMs on which best-effort work may run beside requests, as found for loads of
 * different lengths, and their text between runs.
 */
#ifndef TALLY_POLICY_FOUND_SMS_H
#define TALLY_POLICY_FOUND_SMS_H

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tally {

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
