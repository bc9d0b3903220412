// Block barriers in called functions: do all threads meet there equally often?
#ifndef TALLY_PTX_ANALYSIS_CALLEE_BARRIERS_H
#define TALLY_PTX_ANALYSIS_CALLEE_BARRIERS_H

#include "tally/ptx/analysis/call_graph.h"

#include "llvm/ADT/SetVector.h"

#include <vector>

namespace tally::ptx {

/// What keeps persistent from looping over `entry` for a barrier in one of `callees`, all that it
/// may call. In a loop threads that have left wait at a barrier (analysis/barriers.h), so each
/// thread must execute each barrier equally often. Sufficient, and asked here:
///
/// * in a function with barriers, each has a full-block form and runs under decisions that are the
///   same for all threads whatever the arguments are;
/// * each call that may reach such a function, in the entry or in a callee, runs under such
///   decisions too, and if it is through a pointer that is the same for all threads.
///
/// So each thread makes each of these calls equally often, and meets in it the same barriers. Of a
/// recursion with a barrier this is never shown: its end depends on an argument.
std::vector<Finding> findCalleeBarriers(const CallGraph &graph, const Function &entry,
                                        const llvm::SetVector<const Function *> &callees);

} // namespace tally::ptx

#endif
