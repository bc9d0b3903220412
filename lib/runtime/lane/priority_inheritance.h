// As what a lane's operations go: as its own class of best effort, as a higher one whose work waits
// for them, or whatever the policy says, because work of high priority waits.
#ifndef TALLY_LIB_RUNTIME_LANE_PRIORITY_INHERITANCE_H
#define TALLY_LIB_RUNTIME_LANE_PRIORITY_INHERITANCE_H

#include "tally/policy/policy.h"

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace tally::runtime {

/// For the dispatcher's thread, but where it says another. Operations are told by how many come
/// before them.
class PriorityInheritance {
public:
  /// What is up to that number goes out whether best-effort work may run or not. For any thread.
  void inheritHighPriority(std::uint64_t number) {
    std::uint64_t known = highUntil.load();
    while (known < number && !highUntil.compare_exchange_weak(known, number)) {
    }
  }
  /// For any thread.
  bool isHigh(std::uint64_t before) const { return before < highUntil.load(); }

  /// Of what is put on the lane; before anything is. For any thread.
  void setClass(std::uint32_t number) { own.store(number); }
  /// Which class of best effort what comes behind so many operations goes as.
  std::uint32_t classAt(std::uint64_t before) const {
    return before < classUntil ? std::min(inherited, own.load()) : own.load();
  }
  /// Work of that class waits for the operations up to that number; `finished` of them are over.
  void inheritClass(std::uint64_t number, std::uint32_t bestEffortClass, std::uint64_t finished) {
    bool holds = finished < classUntil; // an earlier one, which may reach further
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
