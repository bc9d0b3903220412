// Clones: copies of the user's .func callees that read the virtual block ids, for variants to call.
//
// A callee that reads %ctaid or %nctaid, or calls one that does, is copied once per module as
// `<callee>$tally_virtual`, with the same prototype; calls in variants and in clones go to the
// clones, so recursion needs nothing special. The user's own stay as they are: the user's kernels
// and the guard's first entry, which runs on the physical grid, call those. A clone has no linkage:
// were the module linked with another that holds the same inline function, its clone would clash.
//
// A call through a pointer is preceded by comparisons of the pointer with the functions that have
// clones. Equal: control goes to a copy of the call, its arguments included, that calls the clone.
// A pointer to any other function is called as it is.
//
// A clone reads the ids from `$tally_block`, a shared variable of the module: 8 words, the flag,
// the virtual %ctaid and %nctaid, and one unused. The variant fills it before its block goes on.
// Shared memory, as that is the one place that a block's functions share without a parameter. ptxas
// counts it only for entries that may reach a function that names it; so no clone's address is ever
// taken, since through pointers every kernel that calls by pointer might reach it.
#ifndef TALLY_LIB_PTX_TRANSFORMS_CLONES_H
#define TALLY_LIB_PTX_TRANSFORMS_CLONES_H

#include "tally/ptx/analysis/kernel_analysis.h"
#include "tally/ptx/transforms/editor.h"
#include "tally/ptx/transforms/rewriter.h"

namespace tally::ptx {

/// Declares `$tally_block` for the module.
inline constexpr std::string_view blockVariable = ".shared .align 16 .b32 $tally_block[8];";

/// Makes the calls of `function` that reach functions with clones go to the clones.
void redirectCalls(FunctionEditor &editor, const Function &function,
                   const KernelAnalysis &analysis);

/// The clone of a function that needs one.
Clone cloneOf(const Function &callee, const CallGraph &graph);

} // namespace tally::ptx

#endif
