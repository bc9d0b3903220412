// partition: high-priority work has most SMs, best effort a share of them, all the time (after
// MuxFlow's dynamic SM share).
#ifndef TALLY_POLICY_PARTITION_POLICY_H
#define TALLY_POLICY_PARTITION_POLICY_H

#include "tally/policy/additive_control.h"

namespace tally {

/// While high-priority work is active, best-effort work runs on a share of the SMs; that grows
/// while busy times stay what they are with the least share, and shrinks when they do not
/// (AdditiveControl). While none is active it has all. With least == most the share is fixed. What
/// cannot be kept to a share waits (Decision::sms).
struct PartitionPolicy {
  PartitionPolicy() : PartitionPolicy(0.1, 0.5) {}
  /// Shares of the SMs, 0 to 1; least <= most.
  PartitionPolicy(double least, double most) {
    share.least = share.value = least;
    share.most = most;
    share.step = 0.02;
  }
  AdditiveControl share;

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
