// Counts of durations in 176 buckets, eight to each power of two from 1.024 us to 4.3 s: a duration
// is known to within 1/16 of itself. What is shorter counts in the first bucket, what is longer in
// the last one.
#ifndef TALLY_RUNTIME_HISTOGRAM_H
#define TALLY_RUNTIME_HISTOGRAM_H

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace tally::runtime {

struct Histogram {
  static constexpr std::uint32_t buckets = 176;
  static constexpr std::uint32_t bucketsOfOctave = 8;

  static constexpr std::uint32_t bucketOf(std::chrono::nanoseconds duration) {
    auto ns = static_cast<std::uint64_t>(std::max<std::int64_t>(duration.count(), 0));
    if (ns < lowest)
      return 0;
    auto octave = static_cast<std::uint32_t>(std::bit_width(ns / lowest) - 1);
    std::uint64_t part = (ns >> (octave + lowestBits - 3)) - bucketsOfOctave;
    return static_cast<std::uint32_t>(
        std::min<std::uint64_t>(octave * bucketsOfOctave + part, buckets - 1));
  }
  /// The shortest duration of a bucket but the first, which begins at 0.
  static constexpr std::chrono::nanoseconds lowerBound(std::uint32_t bucket) {
    std::uint64_t part = bucketsOfOctave + bucket % bucketsOfOctave;
    return std::chrono::nanoseconds(part << (bucket / bucketsOfOctave + lowestBits - 3));
  }

  std::uint64_t count() const {
    std::uint64_t sum = 0;
    for (std::uint64_t each : counts)
      sum += each;
    return sum;
  }
  /// What `fraction` (0 to 1) of the durations do not exceed, as the middle of its bucket; nothing
  /// where there are none.
  std::optional<std::chrono::nanoseconds> quantile(double fraction) const {
    std::uint64_t all = count();
    if (all == 0)
      return std::nullopt;
    auto rank = static_cast<std::uint64_t>(fraction * static_cast<double>(all));
    rank = std::min(rank, all - 1);
    std::uint32_t bucket = 0;
    for (std::uint64_t below = counts[0]; below <= rank; below += counts[bucket])
      ++bucket;
    if (bucket == buckets - 1)
      return lowerBound(bucket);
    return (lowerBound(bucket) + lowerBound(bucket + 1)) / 2;
  }
  /// What came since `earlier`, which is the same histogram some time ago.
  Histogram since(const Histogram &earlier) const {
    Histogram later = *this;
    for (std::uint32_t i = 0; i < buckets; ++i)
      later.counts[i] -= std::min(later.counts[i], earlier.counts[i]);
    return later;
  }

  std::array<std::uint64_t, buckets> counts{};

private:
  static constexpr std::uint32_t lowestBits = 10;
  static constexpr std::uint64_t lowest = std::uint64_t{1} << lowestBits;
};

} // namespace tally::runtime

#endif
