// Whether a value decides when a loop ends.
#ifndef TALLY_LIB_PTX_ANALYSIS_TAINT_H
#define TALLY_LIB_PTX_ANALYSIS_TAINT_H

#include "definitions.h"
#include "loops.h"

#include "llvm/ADT/ArrayRef.h"

namespace tally::ptx {

/// Whether what `sources`, statements of `loop`, read may decide when the loop ends.
///
/// A taint goes through registers, through the carry flag, through memory (one cell for each state
/// space), through what lanes tell each other, and through control: that of one turn (see waits.h),
/// which also decides which lanes stand together. A way out is a branch, ret or exit that leads out
/// of the loop, and a call, one of `exits`, in which the thread may exit.
///
/// With `byRoots`, the body's definitions, a value stored to global memory by one pointer (a
/// parameter, a variable) is not looked for behind another.
///
/// What each opcode reads beside its operands is its Intake, see opcodes.h.
bool decideWhenItEnds(const Cfg &cfg, const Loop &loop, llvm::ArrayRef<std::uint32_t> sources,
                      llvm::ArrayRef<std::uint32_t> exits, const Definitions *byRoots = nullptr);

} // namespace tally::ptx

#endif
