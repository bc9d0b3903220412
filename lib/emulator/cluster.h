// Thread block clusters: blocks that are in flight together, share a barrier, and access each
// other's shared memory. Without clusters every block is a cluster of its own.
#ifndef TALLY_LIB_EMULATOR_CLUSTER_H
#define TALLY_LIB_EMULATOR_CLUSTER_H

#include "warp_scheduler.h"

#include <memory>
#include <vector>

namespace tally::emulator {

struct Cluster {
  explicit Cluster(const Launch &launch);
  /// Prepares to run the cluster with this linear id from its start, entirely on `virtualSm`.
  void reset(std::uint64_t linearId, std::uint32_t virtualSm = 0);

  std::vector<std::unique_ptr<Block>> blocks; ///< by rank
  std::uint32_t next = 0; ///< the warp at which the plain order starts its search

  std::uint64_t steps() const;
  std::uint64_t executed() const;
  /// Whether the last advanced block executed nanosleep.
  bool napped() const;
  const std::optional<Fault> &fault() const; ///< fault of the first block that has one
};

/// Runs one warp of one block of the cluster for a while.
BlockState advance(Cluster &cluster, Chooser &chooser);

/// barrier.cluster.arrive and .wait.
Status clusterBarrier(Warp &warp, const Op &op, std::uint32_t mask);
/// Lets a group arrive or wait, if it is all of its warp where the barrier requires that.
Status clusterBarrierGroup(Warp &warp, const Op &op, std::uint32_t groupIndex);
/// Checks whether the barrier is complete after the number of expected threads fell.
void recheckClusterBarrier(Cluster &cluster);

} // namespace tally::emulator

#endif
