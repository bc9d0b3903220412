// A small generator whose numbers are the same on every machine and standard library.
#ifndef INFERENCE_SERVER_RANDOM_H
#define INFERENCE_SERVER_RANDOM_H

#include <cmath>
#include <cstdint>
#include <span>

namespace inference_server {

/// SplitMix64.
class Random {
public:
  explicit Random(std::uint64_t seed) : state(seed) {}

  std::uint64_t next() {
    std::uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  /// In [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  /// In [0, bound).
  int below(int bound) { return static_cast<int>(next() % static_cast<std::uint64_t>(bound)); }
  double exponential(double mean) { return -mean * std::log1p(-uniform()); }

  void fill(std::span<float> values, double low, double high) {
    for (float &value : values)
      value = static_cast<float>(low + (high - low) * uniform());
  }

private:
  std::uint64_t state;
};

} // namespace inference_server

#endif
