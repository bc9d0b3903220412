// One launch of a user's kernel through one kind, from its first block to its last, whatever yields
// in between: the part of the ABI that stands on the host's side. Pure: it decides what to launch
// next and reads what came of it; somebody else launches (the runtime's dispatcher, tally-verify).
#ifndef TALLY_RUNTIME_VARIANT_LAUNCH_H
#define TALLY_RUNTIME_VARIANT_LAUNCH_H

#include "tally/bundle/abi.h"
#include "tally/bundle/bundle.h"
#include "tally/support/dim3.h"

#include <algorithm>
#include <cstdint>

namespace tally::runtime {

/// The divisor for numbers below 2^31. `d` >= 1.
constexpr tally_divisor divisorOf(std::uint32_t d) {
  std::uint32_t log2 = 0;
  while ((std::uint64_t{1} << log2) < d)
    ++log2;
  std::uint32_t shift = 31 + log2;
  auto multiplier = static_cast<std::uint32_t>(((std::uint64_t{1} << shift) + d - 1) / d);
  return {multiplier, shift};
}

/// The shape that a kernel's variants are launched for when the user's kernel is launched with
/// `shape`: with the cluster that the kernel demands, and without one where the kernel cannot tell.
constexpr LaunchShape shapeForVariants(const bundle::Kernel &kernel, LaunchShape shape) {
  if (!kernel.usesClusters)
    shape.cluster = {0, 0, 0};
  else if (shape.cluster == Dim3{0, 0, 0})
    shape.cluster = kernel.requiredCluster;
  return shape;
}

/// How many workers a launch of a kind with workers has where `workers` would do: a worker for each
/// block where they may spend themselves.
inline std::uint32_t workersFor(const bundle::Kernel &kernel, const LaunchShape &shape,
                                std::uint32_t workers) {
  if (!kernel.maySpend(shape.block.x))
    return workers;
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(shape.grid.count(), TALLY_MAX_VIRTUAL_BLOCKS));
}

/// Bytes of one worker's slot of the save area of a checkpoint launch (abi.h), a multiple of 256.
/// There is a slot though nothing is kept in it: all that is live may be made again.
inline std::uint64_t saveStrideOf(const bundle::Kernel &kernel, const LaunchShape &shape) {
  const Verdict *verdict = kernel.verdict(Kind::Checkpoint);
  if (!verdict)
    return 0;
  std::uint64_t records = shape.block.count() * verdict->recordBytes;
  std::uint64_t shared = std::uint64_t{verdict->savedSharedBytes} + shape.dynamicSharedBytes;
  return std::max<std::uint64_t>(((shared + 15) / 16 * 16 + records + 255) / 256 * 256, 256);
}

/// Bytes of the headers of so many workers, before params.save_area; a multiple of 256.
constexpr std::uint64_t saveHeaderBytes(std::uint64_t workers) {
  return (workers * sizeof(tally_save_slot) + 255) / 256 * 256;
}

/// What to hand to the device for one physical launch.
struct PhysicalLaunch {
  bool resumeEntry = false; ///< the guard's `_resume` entry
  LaunchShape shape;
  tally_launch_params params{}; ///< control, epoch, state and the lists' addresses are the caller's
                                ///< to fill
  tally_launch_state state{};   ///< to be in device memory when the launch starts
  /// Bytes that params.save_area must have room for, behind saveHeaderBytes() for as many workers
  /// as the launch has blocks, both with what the last launch of this progress left there; 0: none.
  /// params.save_stride is a worker's part of it.
  std::uint64_t saveBytes = 0;
  bool readsList = false;         ///< params.list_in must be the list that the last launch wrote
  std::uint32_t listCapacity = 0; ///< ids that params.list_out must have room for; 0: none
};

/// Progress of one launch of the user's kernel. For each kind alike: while
/// !finished(), launch next(), wait for it, give its state to absorb(). Value type, not
/// thread-safe.
///
/// Where the shape has clusters, whatever is launched is whole clusters: a slice's box, and the
/// grid of a guard's resume entry, in which the i-th cluster along x, of the user's extents, stands
/// for the cluster whose first block's id is the list's i-th.
class VariantLaunch {
public:
  /// The most virtual blocks that a launch of this kind may have; a larger grid takes another kind.
  /// With workers the counter overshoots by one per worker and must not wrap (the variants count
  /// with atom.inc, which wraps to 0 behind TALLY_MAX_VIRTUAL_BLOCKS).
  static constexpr std::uint64_t maxBlocks(Kind kind, std::uint32_t workers) {
    switch (kind) {
    case Kind::Slice:
      return ~std::uint64_t{0};
    case Kind::Guard:
      return TALLY_MAX_VIRTUAL_BLOCKS;
    case Kind::Persistent:
    case Kind::Pause:
    case Kind::Checkpoint:
      return workers < TALLY_MAX_VIRTUAL_BLOCKS ? TALLY_MAX_VIRTUAL_BLOCKS - workers : 0;
    }
    return 0;
  }

  /// `user`: as shapeForVariants() gives it; every extent of the grid >= 1 and a multiple of the
  /// cluster's, at most maxBlocks() blocks. `sliceBlocks`: about how many blocks a slice may hold,
  /// one cluster at least. `workers`: blocks to launch for kinds with workers, see workersFor().
  /// Both >= 1. `tickets`: the guard takes tickets (bundle::Kernel::guardTakesTickets).
  /// `saveStride`: of checkpoint, see saveStrideOf(); below 4 GiB.
  VariantLaunch(Kind kind, const LaunchShape &user, std::uint32_t sliceBlocks,
                std::uint32_t workers, bool tickets = false, std::uint64_t saveStride = 0);

  Kind kind() const { return variantKind; }
  bool finished() const { return done; }
  /// The next physical launch. Only while !finished(). The same until absorb() is called.
  PhysicalLaunch next() const;
  /// Whether the launch from next() can have left this state. A state that fails this was written
  /// by somebody else (a stray store of a kernel): it must not be absorbed.
  bool plausible(const tally_launch_state &state) const;
  /// Whether the launch from next() ran no block at all.
  bool ranNothing(const tally_launch_state &state) const;
  /// Checkpoint: whether blocks stand in the save area, which the next launch goes on with.
  bool hasSaved() const { return saved != 0; }
  /// Of a kind with workers, how many the next launch must have at least. It may have fewer than
  /// next() says, but each saved block waits in the slot of its worker.
  std::uint32_t leastWorkers() const { return saved == 0 ? 1 : savedBy; }
  /// Blocks of the user's grid that are not done; not of slices.
  std::uint64_t blocksLeft() const;
  /// Goes on through another kind: those with workers count blocks alike. Only where nothing is
  /// saved, and before next() is looked at. `workers`, `saveStride`: as for the constructor.
  void goOnAs(Kind kind, std::uint32_t workers, std::uint64_t saveStride);
  /// Which words of its state say that the launch from next() is done, once it has ended: where
  /// true `next_block` is at least the blocks, else `yielded` is 0; and `saved` is 0.
  bool countsBlocks() const { return progress == Progress::Counter; }
  /// Takes the state that the launch from next() left; it must be plausible(). Of checkpoint,
  /// `epoch`: that it was issued under, `launched`: its workers. Returns whether it yielded (blocks
  /// are left that it was asked to run). A guard's first launch that ran nothing is simply to be
  /// made again. A slice never yields, so its state is not read.
  bool absorb(const tally_launch_state &state, std::uint64_t epoch = 0, std::uint32_t launched = 0);

private:
  /// The ways in which progress is kept.
  enum class Progress : std::uint8_t { Boxes, List, Counter };
  std::uint64_t clusters() const { return user.grid.count() / cluster.count(); }

  Kind variantKind;
  Progress progress;
  LaunchShape user;
  Dim3 cluster;     // extents, 1 each without clusters
  Dim3 sliceExtent; // of one slice's box; boxes are runs of consecutive linear ids of clusters
  Dim3 sliceOrigin{0, 0, 0};
  std::uint32_t workers;        // counter: the most blocks of one launch
  std::uint32_t nextBlock = 0;  // counter: first block not yet taken
  std::uint64_t saveStride = 0; // checkpoint
  std::uint32_t saved = 0;      // checkpoint: blocks in slots of the save area
  std::uint32_t savedBy = 0;    // checkpoint: workers of the launch that saved them
  std::uint64_t savedUnder = 0; // checkpoint: epoch of that launch
  std::uint32_t listLength = 0; // list: ids left by the last launch, one per cluster
  bool resuming = false;        // list: whether it is what is left
  bool done = false;
};

} // namespace tally::runtime

#endif
