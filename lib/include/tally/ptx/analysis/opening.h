// How far a block may run before it decides whether it runs at all.
#ifndef TALLY_PTX_ANALYSIS_OPENING_H
#define TALLY_PTX_ANALYSIS_OPENING_H

#include "tally/ptx/ir/module.h"

#include <cstdint>
#include <optional>

namespace tally::ptx {

/// The opening of an entry: what a block may execute and then leave, and again when it does it all.
/// It is the start of the entry's first block, and holds nothing but
///
/// * arithmetic and moves of parameters and of the thread's and block's ids: no clocks, no places
/// on
///   the device, no warp operations, nothing that is not known;
/// * a few plain loads of global memory whose addresses come from these, and nothing that reads
/// what
///   they loaded. So a load is one that the block executes in any case, at the same address: it
///   cannot fail where the user's would not, even while a kernel that it depends on has yet to be
///   resumed. What it finds then is thrown away.
///
/// Nothing in it writes anywhere but to registers, and nothing waits for what it loads.
struct Opening {
  std::uint32_t end = 1; ///< index of the first statement that is not in it; behind declarations
  unsigned loads = 0;    ///< of global memory
};

/// `mayAskForBlock`: whether it may read the block's id and the grid's extents.
Opening openingOf(const Function &function, bool mayAskForBlock = true);

/// A barrier of the entry's own by which a block may decide whether it runs at all: the body's
/// first, where all before it vanishes with a block that leaves there. All threads come to it, once
/// and first of all barriers: in the text before it nobody exits, and branches go forward, to
/// labels before it that nothing behind it goes to. What stands there is
///
/// * what an opening may hold;
/// * stores to the block's shared memory, and copies into it that are waited for by the thread (not
/// bulk ones, and none that arrives at an mbarrier);
/// * arithmetic on what was loaded, which may be stored, but is no part of an address and decides
/// nothing. So which loads, copies and stores a thread executes, and where, follows from parameters
/// and ids as in an opening: the block executes them in any case.
struct OwnBarrier {
  std::uint32_t end = 1; ///< index behind the last statement before it that is no line or pragma
  std::uint32_t barrier = 0; ///< its index
  /// Index up to which a block that leaves may still go: what stands between reads parameters and
  /// shared memory, where the addresses follow from the same, and is arithmetic.
  std::uint32_t leave = 0;
  bool copies = false; ///< copies may be in flight there
};

/// Nothing where there is no such barrier, or what stands before it takes long.
std::optional<OwnBarrier> ownBarrierOf(const Function &function);

/// The prelude of an entry: all that its threads do before the first thing that can be seen, loops
/// included. It is the start of the text, up to a place that every thread comes to, once: no branch
/// leads over that place, and nobody exits before it. It holds nothing but
///
/// * arithmetic, and moves of parameters and of the thread's and block's ids;
/// * plain loads of global memory whose addresses come from these. What was loaded goes into
///   arithmetic, but is no part of an address and decides on no branch and no load. So which way a
///   thread takes, how often loops turn and what is loaded where follows from parameters and ids:
///   the block does it in any case, and whoever does it ends whatever was loaded.
///
/// So a warp may go through it, or not, and its block leave behind it.
struct Prelude {
  std::uint32_t end = 1; ///< index of the first statement that is not in it
  bool loops = false;    ///< whether anything in it is repeated
};

/// Nothing where what shows comes first, or where a loop has more than one head: the warps are to
/// be whole at its end.
std::optional<Prelude> preludeOf(const Function &function);

} // namespace tally::ptx

#endif
