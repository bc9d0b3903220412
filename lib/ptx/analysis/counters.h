// Work taken from a counter: loops that end when it has been counted up to a bound.
#ifndef TALLY_LIB_PTX_ANALYSIS_COUNTERS_H
#define TALLY_LIB_PTX_ANALYSIS_COUNTERS_H

#include "claims.h"

namespace tally::ptx {

/// Whether each loop of `loops` ends by what its own block counts, whatever others write.
///
/// Shown where a loop reads nothing of others but by one atom.add of a constant c > 0, and all of
/// `writes`, which may reach what the loops read, add the same c, as wide. Each turn comes by a
/// branch that leaves the loop when a ticket (what the atom returned, plus and times what the loop
/// does not change) is not below a bound that the loop does not change. Then
/// - a block that goes on and takes tickets for ever counts the word up itself, so it comes to the
///   bound, and from there on each ticket leaves: nobody has to help;
/// - one that takes no more tickets reads nothing more of others.
/// Tickets may pass through shfl.sync, and through shared memory where nothing else in the loop is
/// written to that place.
bool areCounters(const Cfg &cfg, const Definitions &whole, llvm::ArrayRef<LoopReads> loops,
                 llvm::ArrayRef<std::uint32_t> writes);

} // namespace tally::ptx

#endif
