// Whether a value decides when a loop ends.
#ifndef TALLY_LIB_PTX_ANALYSIS_TAINT_H
#define TALLY_LIB_PTX_ANALYSIS_TAINT_H

#include "definitions.h"
#include "loops.h"

#include "llvm/ADT/ArrayRef.h"

namespace tally::ptx {

/// Whether values that `sources`, statements of `loop`, read may decide when the loop ends.
///
/// A taint propagates through registers, the carry flag, memory (one cell for each state space),
/// values that lanes exchange, and control. Control is that of one turn (see waits.h), and also
/// decides which lanes are converged. An exit is a branch, ret or exit that leads out of the loop,
/// or one of `exits`: calls in which the thread may exit.
///
/// With `byRoots`, the body's definitions, a value stored to global memory by one pointer (a
/// parameter, a variable) is assumed not to be read by another.
///
/// An opcode's Intake names its reads besides its operands, see opcodes.h.
bool decideWhenItEnds(const Cfg &cfg, const Loop &loop, llvm::ArrayRef<std::uint32_t> sources,
                      llvm::ArrayRef<std::uint32_t> exits, const Definitions *byRoots = nullptr);

} // namespace tally::ptx

#endif
