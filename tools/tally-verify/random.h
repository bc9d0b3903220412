// Pseudo-random numbers that are the same with every standard library (std::uniform_* are not).
#ifndef TALLY_VERIFY_RANDOM_H
#define TALLY_VERIFY_RANDOM_H

#include <cstdint>

namespace tally::verify {

/// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
class Random {
public:
  explicit Random(std::uint64_t seed) : state(seed) {}

  std::uint64_t next() {
    std::uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  /// Returns a number in [0, bound); `bound` >= 1. The bias of the remainder does not matter here.
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }

private:
  std::uint64_t state;
};

} // namespace tally::verify

#endif
