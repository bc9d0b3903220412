// Thread block clusters: blocks that are in flight together, share a barrier, and reach into each
// other's shared memory. Without clusters every block is one of its own.
#ifndef TALLY_LIB_EMULATOR_CLUSTER_H
#define TALLY_LIB_EMULATOR_CLUSTER_H

#include "warp_scheduler.h"

#include <memory>
#include <vector>

namespace tally::emulator {

struct Cluster {
  explicit Cluster(const Launch &launch);
  /// Makes ready to run the cluster with this linear id from its start, all of it on `virtualSm`.
  void reset(std::uint64_t linearId, std::uint32_t virtualSm = 0);

  std::vector<std::unique_ptr<Block>> blocks; ///< by rank
  std::uint32_t next = 0;                     ///< where the plain order looks first

  std::uint64_t steps() const;
  std::uint64_t executed() const;
  /// Whether the block that was advanced last took a nap.
  bool napped() const;
  const std::optional<Fault> &fault() const; ///< of the first block that has one
};

/// Runs one warp of one block of the cluster for a while.
BlockState advance(Cluster &cluster, Chooser &chooser);

/// barrier.cluster.arrive and .wait.
Status clusterBarrier(Warp &warp, const Op &op, std::uint32_t mask);
/// The same for a group that is all of its warp, if the barrier asks for that.
Status clusterBarrierGroup(Warp &warp, const Op &op, std::uint32_t groupIndex);
/// The barrier may be complete now that fewer threads are expected.
void recheckClusterBarrier(Cluster &cluster);

} // namespace tally::emulator

#endif
