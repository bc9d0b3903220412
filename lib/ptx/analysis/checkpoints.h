// Finds where a kernel can be checkpointed.
#ifndef TALLY_LIB_PTX_ANALYSIS_CHECKPOINTS_H
#define TALLY_LIB_PTX_ANALYSIS_CHECKPOINTS_H

#include "tally/ptx/analysis/checkpoint_plan.h"
#include "tally/ptx/analysis/loop_plan.h"
#include "tally/ptx/analysis/module_facts.h"
#include "tally/ptx/analysis/poll_sites.h"
#include "tally/ptx/analysis/refusal_reasons.h"

#include "llvm/ADT/SetVector.h"

#include <vector>

namespace tally::ptx {

struct Checkpoints {
  std::vector<Finding> findings; ///< all for Kind::Checkpoint
  CheckpointPlan plan;
};

/// Looks at `entry`, whose blocks wait for no other blocks, and at `callees`, all functions with
/// bodies that it may call. `loop`: how a worker continues with its next block. `polls`: how often
/// to poll.
///
/// * Nothing of a block may depend on the SM or the time: the block may resume elsewhere.
/// * Threads that share no memory and never synchronise stop one by one, at any loop's head. Other
///   blocks stop at the head of a loop that all their threads go round equally often
///   (uniformity.h), and all threads stop in the same turn.
/// * At a point every live register can be named and stored: it is declared in the body's outer
///   scope, and no condition code is live.
Checkpoints findCheckpoints(ModuleFacts &modules, const Function &entry,
                            const llvm::SetVector<const Function *> &callees, const LoopPlan &loop,
                            const PollRules &polls);

} // namespace tally::ptx

#endif
