// Clones: copies of the user's .func callees that read the virtual block ids, for variants to call.
//
// A callee that reads %ctaid or %nctaid, or calls such a function, is copied once per module as
// `<callee>$tally_virtual`, with the same prototype. Calls in variants and in clones go to the
// clones, so recursion needs nothing special. The user's functions stay unchanged: the user's
// kernels and the guard's first entry, which runs on the physical grid, call them. A clone has no
// linkage: if the module is linked with another that holds the same inline function, the two clones
// do not clash.
//
// Before a call through a pointer the pass compares the pointer with the functions that have
// clones. If they are equal, control goes to a copy of the call and its arguments that calls the
// clone. A pointer to any other function is called unchanged.
//
// A clone reads the ids from `$tally_block`, a shared variable of the module: 8 words, the flag,
// the virtual %ctaid and %nctaid, and one unused. The variant fills it before its block runs.
// Shared memory is the only place that a block's functions share without a parameter. ptxas counts
// the variable only for entries that may reach a function that names it. So the pass never takes
// the address of a clone: every kernel that calls through a pointer might reach it.
#ifndef TALLY_LIB_PTX_TRANSFORMS_CLONES_H
#define TALLY_LIB_PTX_TRANSFORMS_CLONES_H

#include "tally/ptx/analysis/kernel_analysis.h"
#include "tally/ptx/transforms/editor.h"
#include "tally/ptx/transforms/rewriter.h"

namespace tally::ptx {

/// Declares `$tally_block` for the module.
inline constexpr std::string_view blockVariable = ".shared .align 16 .b32 $tally_block[8];";

/// Redirects the calls of `function` that reach functions with clones to the clones.
void redirectCalls(FunctionEditor &editor, const Function &function,
                   const KernelAnalysis &analysis);

/// Returns the clone of a function that needs a clone.
Clone cloneOf(const Function &callee, const CallGraph &graph);

} // namespace tally::ptx

#endif
