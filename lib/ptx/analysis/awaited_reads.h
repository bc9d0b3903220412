// Instructions that read what another thread block, or the host, may write while the kernel runs.
#ifndef TALLY_LIB_PTX_ANALYSIS_AWAITED_READS_H
#define TALLY_LIB_PTX_ANALYSIS_AWAITED_READS_H

#include "tally/ptx/ir/module.h"

#include <string_view>

namespace tally::ptx {

/// What a thread can await by an instruction that it executes again and again.
enum class Awaits : std::uint8_t {
  Nothing,
  OwnBlock, ///< what other threads of its own block write: a strong read of scope .cta
  Aided,    ///< what other blocks write, in a loop that holds a polling aid
  Others    ///< what other blocks write, in any loop
};

/// Others: loads that say that they are volatile, relaxed, acquire, mmio, .cv or .cg; and what
/// ptxas does in each turn of a loop though it is weak: atomics, multimem.ld_reduce, suld, copies
/// from global memory (cp.async, cp.async.bulk). An opcode that is not in the table, too. Aided:
/// other loads, also .nc ones and ldu, wmma.load, tex and tld4. Without an aid ptxas moves them in
/// front of the loop, or leaves the loop out. Reads of shared, local, const and parameter space are
/// none; a generic address may be of global memory. A strong read of scope .cta would race with
/// what another block writes (PTX ISA, memory consistency model: morally strong operations). Calls
/// are judged by what the callee reads.
Awaits awaitedBy(const Instruction &instruction);

/// A fence or an acquiring read that orders against other blocks, or a nap: a weak load beside it
/// may be a poll.
bool isPollingAid(const Instruction &instruction);

/// The spaces of a `cp`, as written: "global", "shared", "shared::cluster", …; empty where it does
/// not say.
struct CopySpaces {
  bool moves = false; ///< false of the forms that wait, commit, arrive or only prefetch
  std::string_view to, from;
};
CopySpaces copySpacesOf(const Instruction &cp);

} // namespace tally::ptx

#endif
