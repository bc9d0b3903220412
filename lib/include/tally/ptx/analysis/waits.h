// Loops that may wait for another thread block.
#ifndef TALLY_PTX_ANALYSIS_WAITS_H
#define TALLY_PTX_ANALYSIS_WAITS_H

#include "tally/bundle/bundle.h"
#include "tally/ptx/analysis/control_dependence.h"
#include "tally/ptx/analysis/function_facts.h"

#include <vector>

namespace tally::ptx {

/// A block that waits for one that has not started would wait for ever in a slice, under a guard
/// whose other blocks yielded, or in a worker that stands before the one waited for.
///
/// A thread waits only in a cycle of the CFG, by leaving it on what another block wrote. So: for
/// each loop, at each depth of nesting, what is read from memory that other blocks write
/// (Awaits::Others of awaited_reads.h, and in a loop that fences or naps Awaits::Aided) is followed
/// through registers, the carry flag, memory that the loop writes, and control (taint.h); a loop
/// that has a way out depending on it is a wait.
///
/// Control is that of one turn of the loop: a block depends on a branch that decides whether this
/// turn comes by it, even if some later turn must. (With plain post-dominance a loop that counts
/// only the turns that found a flag set would pass: the count's block is on every way out.) If no
/// way out depends on what others write, the number of turns does not, and the loop ends if it ends
/// when alone.
///
/// Not a wait: the retry loop around an atom.cas that emulates another atomic (cas_retry.h), and
/// loops that look for a place to claim, where a place once claimed stays so (claims.h), or that
/// take work from a counter up to a bound (counters.h). Reads of scope .cta wait for the own block
/// alone, whose threads run together in every variant.
///
/// Waits for lower blocks: every waiting loop of the kernel is a turnstile (turnstile.h) over one
/// dimension of the block id, and every store that it may wait for passes the turnstile on.
struct WaitFacts {
  bundle::Waits waits = bundle::Waits::None;
  std::uint8_t gridRank = 3;     ///< see bundle::Kernel
  std::vector<Finding> findings; ///< one per loop that may wait for any block
};

/// What the functions called, directly or not, do about waiting.
struct WaitContext {
  bool isEntry = true;
  bool calleesAidPolling = false;          ///< one fences or naps, which counts as every loop's
  bool calleesWrite = false;               ///< one may write memory that blocks share
  bool calleesWriteStrongly = false;       ///< by what another block may wait for
  std::vector<CallSite> readingCalls;      ///< calls whose results may come from what others write
  std::vector<std::uint32_t> exitingCalls; ///< calls in which the thread may exit
};

WaitFacts findWaits(const Cfg &cfg, const FunctionFacts &facts, const WaitContext &context);

} // namespace tally::ptx

#endif
