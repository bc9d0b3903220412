// Counts of durations, on two scales:
//
//   Histogram         176 buckets, eight to each power of two from 1.024 us to 4.3 s: a duration is
//                     accurate to 1/16
//   RequestHistogram  792 buckets, 36 to each power of two from 8.192 us to 34.4 s, each 1.94 %
//                     wide: a duration is accurate to 1 %, or to 2 % where a tool such as
//                     Prometheus interpolates in the bucket
//
// Shorter durations count in the first bucket, longer ones in the last bucket.
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

/// Buckets of one octave (a power of two) are equally wide: few instructions.
struct LinearOctaves {
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
  /// The shortest duration of a bucket, except the first bucket, which begins at 0.
  static constexpr std::chrono::nanoseconds lowerBound(std::uint32_t bucket) {
    std::uint64_t part = bucketsOfOctave + bucket % bucketsOfOctave;
    return std::chrono::nanoseconds(part << (bucket / bucketsOfOctave + lowestBits - 3));
  }

private:
  static constexpr std::uint32_t lowestBits = 10;
  static constexpr std::uint64_t lowest = std::uint64_t{1} << lowestBits;
};

namespace detail {

inline constexpr std::uint32_t geometricBuckets = 36;

/// exp(x) for x in 0 to 1, by its series.
constexpr double exponential(double x) {
  double sum = 1, term = 1;
  for (int i = 1; i < 24; ++i)
    sum += term *= x / i;
  return sum;
}
/// Where the buckets of an octave begin, in units of 2^-32 of the octave's begin.
constexpr std::array<std::uint64_t, geometricBuckets> makeGeometricEdges() {
  constexpr double ln2 = 0.693147180559945309417;
  std::array<std::uint64_t, geometricBuckets> made{};
  for (std::uint32_t i = 0; i < geometricBuckets; ++i)
    made[i] = static_cast<std::uint64_t>(exponential(i * ln2 / geometricBuckets) * 4294967296.0);
  return made;
}
inline constexpr std::array<std::uint64_t, geometricBuckets> geometricEdges = makeGeometricEdges();
/// The bucket in which each 64th of an octave begins.
constexpr std::array<std::uint8_t, 64> makeGeometricFirst() {
  std::array<std::uint8_t, 64> made{};
  for (std::uint64_t i = 0; i < made.size(); ++i)
    while (made[i] + 1u < geometricBuckets && geometricEdges[made[i] + 1u] <= (i + made.size())
                                                                                  << 26)
      ++made[i];
  return made;
}
inline constexpr std::array<std::uint8_t, 64> geometricFirst = makeGeometricFirst();

} // namespace detail

/// All buckets have the same ratio of upper to lower end: the fewest buckets for a relative error.
struct GeometricOctaves {
  static constexpr std::uint32_t bucketsOfOctave = detail::geometricBuckets;
  static constexpr std::uint32_t buckets = 22 * bucketsOfOctave;

  static constexpr std::uint32_t bucketOf(std::chrono::nanoseconds duration) {
    auto ns = static_cast<std::uint64_t>(std::max<std::int64_t>(duration.count(), 0));
    if (ns < std::uint64_t{1} << lowestBits)
      return 0;
    auto bits = static_cast<std::uint32_t>(std::bit_width(ns) - 1);
    if (bits >= lowestBits + buckets / bucketsOfOctave)
      return buckets - 1;
    // In units of 2^-32 of the octave's begin. The highest octave begins at 2^34.
    std::uint64_t part = bits <= 32 ? ns << (32 - bits) : ns >> (bits - 32);
    std::uint32_t bucket = detail::geometricFirst[(part >> 26) - detail::geometricFirst.size()];
    while (bucket + 1 < bucketsOfOctave && detail::geometricEdges[bucket + 1] <= part)
      ++bucket;
    return (bits - lowestBits) * bucketsOfOctave + bucket;
  }
  static constexpr std::chrono::nanoseconds lowerBound(std::uint32_t bucket) {
    std::uint64_t edge = detail::geometricEdges[bucket % bucketsOfOctave];
    std::uint32_t bits = lowestBits + bucket / bucketsOfOctave;
    if (bits >= 32)
      return std::chrono::nanoseconds(edge << (bits - 32));
    std::uint64_t unit = std::uint64_t{1} << (32 - bits);
    return std::chrono::nanoseconds((edge + unit - 1) / unit);
  }

private:
  static constexpr std::uint32_t lowestBits = 13;
};

template <class Octaves> struct HistogramOf : Octaves {
  using Octaves::buckets, Octaves::lowerBound;

  std::uint64_t count() const {
    std::uint64_t sum = 0;
    for (std::uint64_t each : counts)
      sum += each;
    return sum;
  }
  /// The duration that `fraction` (0 to 1) of the durations do not exceed, as the middle of its
  /// bucket; nothing if there are no durations. Of n durations it is the next one after the n *
  /// `fraction` shortest.
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
  /// The durations added since `earlier`, an earlier copy of this histogram.
  HistogramOf since(const HistogramOf &earlier) const {
    HistogramOf later = *this;
    for (std::uint32_t i = 0; i < buckets; ++i)
      later.counts[i] -= std::min(later.counts[i], earlier.counts[i]);
    return later;
  }

  std::array<std::uint64_t, buckets> counts{};
};

using Histogram = HistogramOf<LinearOctaves>;
using RequestHistogram = HistogramOf<GeometricOctaves>;

} // namespace tally::runtime

#endif
