// One launch of a user's kernel through variants, from its first block to its last, across all
// yields: the host's side of the ABI. Pure: it decides what to launch next and reads the resulting
// state; its caller launches (the runtime's dispatcher, tally-verify).
#ifndef TALLY_RUNTIME_VARIANT_LAUNCH_H
#define TALLY_RUNTIME_VARIANT_LAUNCH_H

#include "tally/bundle/abi.h"
#include "tally/bundle/bundle.h"
#include "tally/support/dim3.h"

#include <algorithm>
#include <cstdint>

namespace tally::runtime {

/// Returns the divisor `d` >= 1 for numbers below 2^31.
constexpr tally_divisor divisorOf(std::uint32_t d) {
  std::uint32_t log2 = 0;
  while ((std::uint64_t{1} << log2) < d)
    ++log2;
  std::uint32_t shift = 31 + log2;
  auto multiplier = static_cast<std::uint32_t>(((std::uint64_t{1} << shift) + d - 1) / d);
  return {multiplier, shift};
}

/// The shape for a kernel's variants when the user's kernel is launched with `shape`: with the
/// cluster that the kernel demands, or without a cluster if the kernel does not use clusters.
constexpr LaunchShape shapeForVariants(const bundle::Kernel &kernel, LaunchShape shape) {
  if (!kernel.usesClusters)
    shape.cluster = {0, 0, 0};
  else if (shape.cluster == Dim3{0, 0, 0})
    shape.cluster = kernel.requiredCluster;
  return shape;
}

/// Number of workers of a launch of a kind with workers: `workers`, or a worker for each block if
/// workers may spend themselves, that is, exit after one block (bundle::Kernel::maySpend()).
inline std::uint32_t workersFor(const bundle::Kernel &kernel, const LaunchShape &shape,
                                std::uint32_t workers) {
  if (!kernel.maySpend(shape.block.x))
    return workers;
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(shape.grid.count(), TALLY_MAX_VIRTUAL_BLOCKS));
}

/// Bytes of one worker's slot in the save area of a checkpoint launch (abi.h), a multiple of 256.
/// At least 256 even if a slot keeps nothing because all live values can be recomputed.
inline std::uint64_t saveStrideOf(const bundle::Kernel &kernel, const LaunchShape &shape) {
  const Verdict *verdict = kernel.verdict(Kind::Checkpoint);
  if (!verdict)
    return 0;
  std::uint64_t records = shape.block.count() * verdict->recordBytes;
  std::uint64_t shared = std::uint64_t{verdict->savedSharedBytes} + shape.dynamicSharedBytes;
  return std::max<std::uint64_t>(((shared + 15) / 16 * 16 + records + 255) / 256 * 256, 256);
}

/// Bytes of the headers of `workers` workers, before params.save_area; a multiple of 256.
constexpr std::uint64_t saveHeaderBytes(std::uint64_t workers) {
  return (workers * sizeof(tally_save_slot) + 255) / 256 * 256;
}

/// Arguments of one physical launch.
struct PhysicalLaunch {
  bool resumeEntry = false; ///< the guard's `_resume` entry
  LaunchShape shape;
  tally_launch_params params{}; ///< the caller fills in control, epoch, state and list addresses
  tally_launch_state state{};   ///< must be in device memory when the launch starts
  /// Bytes that params.save_area must have, after saveHeaderBytes() for as many workers as the
  /// launch has blocks; 0: no save area. Both parts must hold what the last launch of this progress
  /// left there. params.save_stride is a worker's part of the area.
  std::uint64_t saveBytes = 0;
  bool readsList = false;         ///< params.list_in must be the list of the last launch
  std::uint32_t listCapacity = 0; ///< ids for which params.list_out must have space; 0: no list
};

/// Progress of one launch of the user's kernel. For all kinds: while !finished(), launch next(),
/// wait for it, and give its state to absorb(). Value type, not thread-safe.
///
/// If the shape has clusters, each physical launch consists of whole clusters: the box of a slice,
/// and the grid of a guard's resume entry. In that grid the i-th cluster along x, of the user's
/// extents, stands for the cluster whose first block has the i-th id of the list.
class VariantLaunch {
public:
  /// The most virtual blocks that a launch of this kind may have; a larger grid takes another kind.
  /// With workers the counter overshoots by one per worker and must not wrap (the variants count
  /// with atom.inc, which wraps to 0 after TALLY_MAX_VIRTUAL_BLOCKS).
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

  /// `user`: the result of shapeForVariants(); every extent of the grid is >= 1 and a multiple of
  /// the cluster's, with at most maxBlocks() blocks. `sliceBlocks`: about how many blocks a slice
  /// has, at least one cluster. `workers`: blocks to launch for kinds with workers, see
  /// workersFor(). Both
  /// >= 1. `tickets`: the guard takes tickets (bundle::Kernel::guardTakesTickets). `saveStride`:
  /// for kind checkpoint, see saveStrideOf(); below 4 GiB.
  VariantLaunch(Kind kind, const LaunchShape &user, std::uint32_t sliceBlocks,
                std::uint32_t workers, bool tickets = false, std::uint64_t saveStride = 0);

  Kind kind() const { return variantKind; }
  bool finished() const { return done; }
  /// The next physical launch, only while !finished(). The same until absorb() is called.
  PhysicalLaunch next() const;
  /// Whether the launch from next() can have left this state. If not, other code has written the
  /// state (a stray store of a kernel), and it must not be absorbed.
  bool plausible(const tally_launch_state &state) const;
  /// Whether the launch from next() ran no block at all.
  bool ranNothing(const tally_launch_state &state) const;
  /// Checkpoint: whether the save area has blocks, which the next launch resumes.
  bool hasSaved() const { return saved != 0; }
  /// For kinds with workers: the fewest workers of the next launch. It may have fewer than next()
  /// gives, but each saved block waits in the slot of its worker.
  std::uint32_t leastWorkers() const { return saved == 0 ? 1 : savedBy; }
  /// Number of blocks of the user's grid that are not done; not for kind slice.
  std::uint64_t blocksLeft() const;
  /// Continues with another kind with workers: all of them count blocks alike. Only while no block
  /// is saved, and before next() is read. `workers`, `saveStride`: as for the constructor.
  void goOnAs(Kind kind, std::uint32_t workers, std::uint64_t saveStride);
  /// Selects the words of the state that tell whether the launch from next(), once ended, is done.
  /// True: `next_block` is at least the number of blocks; false: `yielded` is 0. In both cases
  /// `saved` is 0.
  bool countsBlocks() const { return progress == Progress::Counter; }
  /// Takes the state that the launch from next() left; it must be plausible(). For kind checkpoint,
  /// `epoch`: the epoch of the launch, `launched`: its workers. Returns whether the launch yielded
  /// (blocks that it was asked to run are left). A guard's first launch that ran no block is simply
  /// made again. A slice never yields, so its state is not read.
  bool absorb(const tally_launch_state &state, std::uint64_t epoch = 0, std::uint32_t launched = 0);

private:
  /// The record of progress.
  enum class Progress : std::uint8_t { Boxes, List, Counter };
  std::uint64_t clusters() const { return user.grid.count() / cluster.count(); }

  Kind variantKind;
  Progress progress;
  LaunchShape user;
  Dim3 cluster;     // its extents; each 1 without clusters
  Dim3 sliceExtent; // extent of a slice's box; boxes are runs of consecutive linear cluster ids
  Dim3 sliceOrigin{0, 0, 0};
  std::uint32_t workers;        // counter: the most blocks of one launch
  std::uint32_t nextBlock = 0;  // counter: first block not yet taken
  std::uint64_t saveStride = 0; // checkpoint
  std::uint32_t saved = 0;      // checkpoint: blocks in slots of the save area
  std::uint32_t savedBy = 0;    // checkpoint: workers of the launch that saved the blocks
  std::uint64_t savedUnder = 0; // checkpoint: epoch of that launch
  std::uint32_t listLength = 0; // list: ids left by the last launch, one per cluster
  bool resuming = false;        // list: whether a list of the blocks left exists
  bool done = false;
};

} // namespace tally::runtime

#endif
