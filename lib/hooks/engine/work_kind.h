// The durations of a kernel, or of a kind of copy, by size, from the sizes that were measured.
#ifndef TALLY_LIB_HOOKS_ENGINE_WORK_KIND_H
#define TALLY_LIB_HOOKS_ENGINE_WORK_KIND_H

#include <algorithm>

namespace tally::hooks {

/// Sizes are in thread blocks or bytes, durations in nanoseconds. Not thread-safe.
class WorkKind {
public:
  /// `isAloneFirst`: the size was never measured before, and no other operation was in the time.
  void measured(double size, double ns, bool isAloneFirst) {
    if (size >= largest.size)
      largest = {size, ns};
    if (smallest.size == 0 || size <= smallest.size)
      smallest = {size, ns};
    sizesAlone += isAloneFirst ? 1 : 0;
  }
  /// Nothing was measured: durations are unknown.
  bool isUnknown() const { return largest.size == 0; }
  /// The duration between two measured sizes is taken from the line through their durations. The
  /// line is above the durations of most kernels, which take the same time up to the size that
  /// fills the device, and a time in proportion from there on. Outside of these sizes: the smallest
  /// size's duration, or one in proportion to the largest size's.
  double expected(double size) const {
    if (size >= largest.size)
      return largest.ns * size / largest.size;
    if (size <= smallest.size)
      return smallest.ns;
    double part = (size - smallest.size) / (largest.size - smallest.size);
    return smallest.ns + std::max(0.0, largest.ns - smallest.ns) * part;
  }
  /// Whether expected() may stand for a measurement: so many sizes were measured that a duration
  /// off the line would probably have been among them. Other sizes have to be measured first: one
  /// size of a kernel may take 400 times as long as the next smaller one.
  bool isJudgeOf(double size) const {
    return sizesAlone >= enoughSizes && size >= smallest.size && size <= largest.size;
  }

private:
  struct Measured {
    double size = 0, ns = 0;
  };
  static constexpr int enoughSizes = 8;
  Measured smallest, largest; ///< size 0: never measured
  int sizesAlone = 0;
};

} // namespace tally::hooks

#endif
