// Work taken from a counter: loops that end when the counter has reached a bound.
#ifndef TALLY_LIB_PTX_ANALYSIS_COUNTERS_H
#define TALLY_LIB_PTX_ANALYSIS_COUNTERS_H

#include "claims.h"

namespace tally::ptx {

/// Whether each loop of `loops` ends by the counting of its own block, whatever other blocks write.
///
/// Shown where a loop reads other blocks' memory only by one atom.add of a constant c > 0, and all
/// of `writes`, which may reach the words that the loops read, add the same c with the same width.
/// Each turn passes a branch that leaves the loop when a ticket (the atom's result, plus and times
/// values that the loop does not change) is not below a bound that the loop does not change. Then -
/// a block that keeps taking tickets counts the word up itself, so it reaches the bound, and from
///   there on each ticket leaves the loop: no other block has to help;
/// - a block that takes no more tickets reads nothing more of other blocks. Tickets may pass
/// through shfl.sync, and through shared memory where the loop writes nothing else to that place.
bool areCounters(const Cfg &cfg, const Definitions &whole, llvm::ArrayRef<LoopReads> loops,
                 llvm::ArrayRef<std::uint32_t> writes);

} // namespace tally::ptx

#endif
