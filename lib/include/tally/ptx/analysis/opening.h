// Finds the part of a block that may run before the block decides whether it runs at all.
#ifndef TALLY_PTX_ANALYSIS_OPENING_H
#define TALLY_PTX_ANALYSIS_OPENING_H

#include "tally/ptx/ir/module.h"

#include <cstdint>
#include <optional>

namespace tally::ptx {

/// The opening of an entry: instructions that a block may execute before it leaves, and execute
/// again when the block runs. It is the start of the entry's first block, and holds only
///
/// * arithmetic and moves of parameters and of the thread's and block's ids: no clocks, no physical
///   ids, no warp operations, no unknown opcodes;
/// * a few plain loads of global memory whose addresses come from these values; nothing in the
///   opening reads the loaded values. So the block executes each load in any case, at the same
///   address: the load cannot fail where the user's would not, even while a kernel that this kernel
///   depends on has yet to be resumed. The loaded value is then discarded.
///
/// Nothing in the opening writes anywhere but to registers, and nothing waits for the loads.
struct Opening {
  std::uint32_t end = 1; ///< index of the first statement behind the opening; behind declarations
  unsigned loads = 0;    ///< loads of global memory
};

/// `mayAskForBlock`: whether the opening may read the block's id and the grid's extents.
Opening openingOf(const Function &function, bool mayAskForBlock = true);

/// A barrier of the entry itself, at which a block may decide whether it runs at all: the body's
/// first, where all effects before it vanish with a block that leaves there. All threads come to
/// it, once, and before any other barrier: in the text before it no thread exits, and branches go
/// forward, to labels before it that no branch behind it targets. The text before it holds only
///
/// * what an opening may hold;
/// * stores to the block's shared memory, and copies into it that the thread waits for (no bulk
///   copies, and no copies that arrive at an mbarrier);
/// * arithmetic on loaded values. The results may be stored, but are no part of an address and
///   decide nothing. So parameters and ids determine, as in an opening, which loads, copies and
///   stores a thread executes, and where: the block executes them in any case.
struct OwnBarrier {
  std::uint32_t end = 1; ///< index behind the last statement before it that is no .loc or .pragma
  std::uint32_t barrier = 0; ///< index of the barrier
  /// A block that leaves may execute the text up to this index. The text in between is arithmetic,
  /// and reads of parameters and shared memory at addresses that parameters and ids determine.
  std::uint32_t leave = 0;
  bool copies = false; ///< whether copies may be in flight at the barrier
};

/// Returns nothing where there is no such barrier, or where the text before it takes long.
std::optional<OwnBarrier> ownBarrierOf(const Function &function);

/// The prelude of an entry: all that its threads do before the first visible effect, loops
/// included. It is the start of the text, up to a place that every thread reaches exactly once: no
/// branch crosses that place, and no thread exits before it. It holds only
///
/// * arithmetic, and moves of parameters and of the thread's and block's ids;
/// * plain loads of global memory whose addresses come from these values. Loaded values go into
///   arithmetic, but are no part of an address and decide no branch and no load. So parameters and
///   ids determine a thread's path, the number of turns of each loop, and all loads: the block
///   executes them in any case, and the prelude ends for any loaded values.
///
/// So a warp may execute or skip it, and its block may leave behind it.
struct Prelude {
  std::uint32_t end = 1; ///< index of the first statement behind the prelude
  bool loops = false;    ///< whether the prelude repeats anything
};

/// Returns nothing where a visible effect comes first, or where a loop has several heads: the warps
/// must be whole at the prelude's end.
std::optional<Prelude> preludeOf(const Function &function);

} // namespace tally::ptx

#endif
