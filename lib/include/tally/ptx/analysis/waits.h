// Loops that may wait for another thread block.
#ifndef TALLY_PTX_ANALYSIS_WAITS_H
#define TALLY_PTX_ANALYSIS_WAITS_H

#include "tally/bundle/bundle.h"
#include "tally/ptx/analysis/control_dependence.h"
#include "tally/ptx/analysis/function_facts.h"

#include <vector>

namespace tally::ptx {

/// A block that waits for a block that has not started would wait for ever in a slice, under a
/// guard whose other blocks yielded, or in a worker that has to run the awaited block later.
///
/// A thread waits only in a cycle of the CFG, and leaves it because of a value that another block
/// wrote. So for each loop, at each depth of nesting, the analysis follows the reads of memory that
/// other blocks write (Awaits::Others of awaited_reads.h, and in a loop that fences or naps also
/// Awaits::Aided) through registers, the carry flag, memory that the loop writes, and control
/// (taint.h). A loop with an exit that depends on them is a wait.
///
/// Control is control within one turn of the loop: a block depends on a branch that decides whether
/// this turn executes the block, even if some later turn must. (With plain post-dominance a loop
/// that counts only the turns that found a flag set would pass: the count's block is on every path
/// out.) If no exit depends on what others write, the number of turns does not, and the loop ends
/// if it ends when its block runs alone.
///
/// Not a wait: the retry loop around an atom.cas that emulates another atomic (cas_retry.h); loops
/// that look for a place to claim, where a claimed place stays claimed (claims.h); loops that take
/// work from a counter up to a bound (counters.h). Reads of scope .cta wait only for the own block,
/// whose threads run together in every variant.
///
/// The kernel waits for lower blocks: every waiting loop is a turnstile (turnstile.h) over one
/// dimension of the block id, and every store that the loop may wait for passes the turnstile on.
struct WaitFacts {
  bundle::Waits waits = bundle::Waits::None;
  std::uint8_t gridRank = 3;     ///< see bundle::Kernel
  std::vector<Finding> findings; ///< one per loop that may wait for any block
};

/// The facts about waiting that called functions, direct and indirect, add.
struct WaitContext {
  bool isEntry = true;
  bool calleesAidPolling = false;    ///< a callee fences or naps; this counts for every loop
  bool calleesWrite = false;         ///< a callee may write memory that blocks share
  bool calleesWriteStrongly = false; ///< a callee may do so by a write that another block may await
  std::vector<CallSite> readingCalls; ///< calls whose results may depend on other blocks' writes
  std::vector<std::uint32_t> exitingCalls; ///< calls in which the thread may exit
};

WaitFacts findWaits(const Cfg &cfg, const FunctionFacts &facts, const WaitContext &context);

} // namespace tally::ptx

#endif
