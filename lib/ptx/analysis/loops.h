// The loops of a CFG, outer before inner, irreducible ones included.
#ifndef TALLY_LIB_PTX_ANALYSIS_LOOPS_H
#define TALLY_LIB_PTX_ANALYSIS_LOOPS_H

#include "tally/ptx/analysis/cfg.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <vector>

namespace tally::ptx {

/// A strongly connected part of the CFG.
struct Loop {
  std::vector<CfgBlock *> blocks;
  std::vector<bool> contains;       ///< by block number
  const CfgBlock *header = nullptr; ///< where control enters it; null with several entry blocks

  bool has(const CfgBlock &block) const { return contains[block.number]; }
};

/// Calls `visit` for each loop: the strongly connected components, then the components left inside
/// each when the edges back to its header are removed, and so on. The inner loops of a loop without
/// a single header are not told apart. Loops that share a header are one loop. Unreachable code is
/// not visited.
void forEachLoop(const Cfg &cfg, llvm::function_ref<void(const Loop &)> visit);

/// Whether the blocks of `loop` without `without` still hold a cycle.
bool hasCycleWithout(const Loop &loop, const CfgBlock &without);

} // namespace tally::ptx

#endif
