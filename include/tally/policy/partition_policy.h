/**
 * @file
 * partition: best-effort work runs all the time, on a share of the SMs while high-priority work is
 * active (after MuxFlow's dynamic SM share).
 */
#ifndef TALLY_POLICY_PARTITION_POLICY_H
#define TALLY_POLICY_PARTITION_POLICY_H

#include "tally/policy/additive_control.h"

namespace tally {

/// While high-priority work is active, best-effort work runs on a share of the SMs. The share grows
/// while busy times stay as short as with the least share, and shrinks when they grow
/// (AdditiveControl). While no high-priority work is active, best-effort work has all SMs. With
/// least == most the share is fixed. A launch that cannot be kept to a share waits (Decision::sms).
struct PartitionPolicy {
  /// A share from 0.1 to 0.5.
  PartitionPolicy() : PartitionPolicy(0.1, 0.5) {}
  /// A share of the SMs from `least` to `most`; both 0 to 1, least <= most, not checked.
  PartitionPolicy(double least, double most) {
    share.least = share.value = least;
    share.most = most;
    share.step = 0.02;
  }
  AdditiveControl share; ///< steers the share of the SMs, 0 to 1

  /// Reads highPriorityActive, smCount, and the fields that AdditiveControl::update() reads. With
  /// a share below one SM best-effort work stands aside.
  Decision decide(const Snapshot &now) {
    double wanted = share.update(now);
    Decision decision;
    decision.runBestEffort = true;
    if (now.highPriorityActive == 0)
      return decision;
    decision.sms = static_cast<std::uint32_t>(wanted * now.smCount);
    decision.runBestEffort = decision.sms != 0;
    return decision;
  }
};

} // namespace tally

#endif
