// Block barriers in called functions: do all threads reach them equally often?
#ifndef TALLY_PTX_ANALYSIS_CALLEE_BARRIERS_H
#define TALLY_PTX_ANALYSIS_CALLEE_BARRIERS_H

#include "tally/ptx/analysis/call_graph.h"

#include "llvm/ADT/SetVector.h"

#include <vector>

namespace tally::ptx {

/// Returns the findings that keep persistent from looping over `entry` because of a barrier in one
/// of `callees`, all functions that `entry` may call. In a loop, threads that have left the body
/// wait at a barrier (analysis/barriers.h), so each thread must execute each barrier equally often.
/// The check is sufficient:
///
/// * in a function with barriers, each barrier has a full-block form and runs under decisions that
///   are the same for all threads whatever the arguments are;
/// * each call that may reach such a function, in the entry or in a callee, also runs under such
///   decisions; the pointer of an indirect call is the same for all threads.
///
/// So each thread makes each of these calls equally often, and meets the same barriers in it. A
/// recursion with a barrier never passes: its end depends on an argument.
std::vector<Finding> findCalleeBarriers(const CallGraph &graph, const Function &entry,
                                        const llvm::SetVector<const Function *> &callees);

} // namespace tally::ptx

#endif
