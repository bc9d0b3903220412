// Priority inheritance: the operations of a lane go as work of the lane's own class of best effort,
// or of a higher class whose work waits for them, or against the policy because high-priority work
// waits for them.
#ifndef TALLY_LIB_RUNTIME_LANE_PRIORITY_INHERITANCE_H
#define TALLY_LIB_RUNTIME_LANE_PRIORITY_INHERITANCE_H

#include "tally/policy/policy.h"

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace tally::runtime {

/// For the dispatcher's thread, except where a comment says otherwise. An operation is named by the
/// number of operations before it.
class PriorityInheritance {
public:
  /// Makes the operations up to `number` go out whether best-effort work may run or not. For any
  /// thread.
  void inheritHighPriority(std::uint64_t number) {
    std::uint64_t known = highUntil.load();
    while (known < number && !highUntil.compare_exchange_weak(known, number)) {
    }
  }
  /// For any thread.
  bool isHigh(std::uint64_t before) const { return before < highUntil.load(); }

  /// Sets the lane's own class; call it before anything is put on the lane. For any thread.
  void setClass(std::uint32_t number) { own.store(number); }
  /// The class of best effort as which the operation after `before` others goes.
  std::uint32_t classAt(std::uint64_t before) const {
    return before < classUntil ? std::min(inherited, own.load()) : own.load();
  }
  /// Makes the operations up to `number` inherit a class; `finished` operations are over.
  void inheritClass(std::uint64_t number, std::uint32_t bestEffortClass, std::uint64_t finished) {
    bool holds = finished < classUntil; // an earlier call still holds, and may reach further
    inherited = holds ? std::min(inherited, bestEffortClass) : bestEffortClass;
    classUntil = holds ? std::max(classUntil, number) : number;
  }

private:
  std::atomic<std::uint64_t> highUntil{0};
  std::atomic<std::uint32_t> own{1};
  std::uint64_t classUntil = 0;
  std::uint32_t inherited = lowestBestEffortClass;
};

} // namespace tally::runtime

#endif
