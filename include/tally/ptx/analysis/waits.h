// Loops that may wait for another thread block.
#ifndef TALLY_PTX_ANALYSIS_WAITS_H
#define TALLY_PTX_ANALYSIS_WAITS_H

#include "tally/ptx/analysis/control_dependence.h"
#include "tally/ptx/analysis/function_facts.h"

#include <vector>

namespace tally::ptx {

/// A block that waits for one that has not started would wait for ever in a slice, under a guard
/// whose other blocks yielded, or in a worker that stands before the one waited for.
///
/// A thread waits only in a cycle of the CFG, by leaving it on what another block wrote. So: for
/// each loop, at each depth of nesting, what is read from memory that other blocks write
/// (isStrongRead, and in a loop that fences or naps every other load) is followed through
/// registers, through memory that the loop writes, and through control; a loop that has a way out
/// depending on it is a wait.
///
/// Control is that of one turn of the loop: a block depends on a branch that decides whether this
/// turn comes by it, even if some later turn must. (With plain post-dominance a loop that counts
/// only the turns that found a flag set would pass: the count's block is on every way out.) If no
/// way out depends on what others write, the number of turns does not, and the loop ends if it ends
/// when alone.
///
/// Except the retry loop around an atom.cas that emulates another atomic: it is the loop's only
/// strong read, on an address that the loop does not change; its comparand is the value seen last
/// (its own earlier result or a load from before the loop), and when it succeeds the loop is left.
/// Such a loop goes round again only because somebody else's operation succeeded in between, never
/// because one is missing. A lock's comparand is a constant, so it is not taken for one.
///
/// `calleesAidPolling`: a function that the kernel calls holds a fence or a nap, which then counts
/// as every loop's.
std::vector<Finding> findWaits(const Cfg &cfg, const FunctionFacts &facts, bool calleesAidPolling);

/// Whether `statement` lies on a cycle.
bool isInLoop(const Cfg &cfg, std::uint32_t statement);

} // namespace tally::ptx

#endif
