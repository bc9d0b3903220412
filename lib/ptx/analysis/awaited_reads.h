// Instructions that read memory that another thread block, or the host, may write while the kernel
// runs.
#ifndef TALLY_LIB_PTX_ANALYSIS_AWAITED_READS_H
#define TALLY_LIB_PTX_ANALYSIS_AWAITED_READS_H

#include "tally/ptx/ir/module.h"

#include <string_view>

namespace tally::ptx {

/// The writes that a thread can await with an instruction that it executes repeatedly.
enum class Awaits : std::uint8_t {
  Nothing,
  OwnBlock, ///< writes of the own block's threads: a strong read of scope .cta
  Aided,    ///< writes of other blocks, in a loop that holds a polling aid
  Others    ///< writes of other blocks, in any loop
};

/// Others: loads that are volatile, relaxed, acquire, mmio, .cv or .cg; weak reads that ptxas does
/// in each turn of a loop: atomics, multimem.ld_reduce, suld, copies from global memory (cp.async,
/// cp.async.bulk); and opcodes that are not in the table. Aided: other loads, also .nc loads and
/// ldu, wmma.load, tex and tld4. Without an aid ptxas moves them in front of the loop, or removes
/// the loop. Nothing: reads of shared, local, const and parameter space; a generic address may be
/// of global memory. A strong read of scope .cta would race with another block's write (PTX ISA,
/// memory consistency model: morally strong operations). A call counts as the reads of its callee.
Awaits awaitedBy(const Instruction &instruction);

/// Whether `instruction` is a fence or an acquiring read that orders against other blocks, or a
/// nap: a weak load beside it may be a poll.
bool isPollingAid(const Instruction &instruction);

/// The spaces of a `cp`, as written: "global", "shared", "shared::cluster", …; empty where the
/// instruction names none.
struct CopySpaces {
  bool moves = false; ///< false for forms that wait, commit, arrive or only prefetch
  std::string_view to, from;
};
CopySpaces copySpacesOf(const Instruction &cp);

} // namespace tally::ptx

#endif
