/**
 * @file
 * partition: best-effort work runs all the time, on a share of the SMs while high-priority work is
 * active (after MuxFlow's dynamic SM share).
 */
#ifndef TALLY_POLICY_PARTITION_POLICY_H
#define TALLY_POLICY_PARTITION_POLICY_H

#include "tally/policy/additive_control.h"
#include "tally/policy/sm_control.h"

#include <string>
#include <string_view>

namespace tally {

/// Best-effort work always has the part `least` of the SMs, high-priority work the part 1 - `most`.
/// What one side leaves, the other has: while no high-priority work is active, best-effort
/// work has all SMs, which come back within a turnaround; while it is active, best-effort work has
/// up to `most` of them, as far as requests take at most `tolerance` times as long as beside
/// `least` and the training gains. With least == most the share is fixed.
///
/// Where the runtime cannot confine every variant (Snapshot::leastSms), AdditiveControl steers the
/// share. A launch that cannot be kept to a share waits (Decision::sms), unless it is short.
struct PartitionPolicy {
  /// A share from 0.1 to 0.5.
  PartitionPolicy() : PartitionPolicy(0.1, 0.5) {}
  /// A share of the SMs from `least` to `most`; both 0 to 1, least <= most, not checked.
  PartitionPolicy(double least, double most) {
    share.least = share.value = least;
    share.most = most;
    share.step = 0.02;
  }
  /// The share of the SMs, 0 to 1, and the tolerance; steers the share if no variant can be
  /// confined.
  AdditiveControl share;
  SmControl beside; ///< steers the number of SMs; `share` has its range
  /// Longest predicted duration of a kernel that cannot be kept to a share and runs on all SMs.
  std::chrono::nanoseconds light{std::chrono::microseconds(50)};

  /// Reads smCount, and the fields that SmControl::update() and AdditiveControl::update() read.
  /// With a share below one SM best-effort work stands aside.
  Decision decide(const Snapshot &now) {
    std::uint32_t sms = now.leastSms != 0
                            ? confined(now)
                            : static_cast<std::uint32_t>(share.update(now) * now.smCount);
    Decision decision;
    decision.runBestEffort = true;
    if (now.highPriorityActive == 0)
      return decision;
    decision.longestUnconfined = light;
    decision.sms = sms;
    decision.runBestEffort = sms != 0;
    return decision;
  }

  /// What `beside` found, for recall() in a later run.
  std::string memory() const { return beside.memory(); }
  /// Takes what an earlier run found.
  void recall(std::string_view text) { beside.recall(text); }

private:
  std::uint32_t confined(const Snapshot &now) {
    beside.least = share.least;
    beside.most = share.most;
    return beside.update(now, {share.tolerance, {}, true});
  }
};

} // namespace tally

#endif
