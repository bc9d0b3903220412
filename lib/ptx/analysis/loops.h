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
  const CfgBlock *header = nullptr; ///< where it is entered; null when at several blocks

  bool has(const CfgBlock &block) const { return contains[block.number]; }
};

/// Calls `visit` for each loop: the strongly connected components, then those left inside each when
/// the edges back to its header are taken away, and so on. The inner loops of one without a single
/// header are not told apart; loops that share a header are one. What no way leads to from the
/// entry is not looked at.
void forEachLoop(const Cfg &cfg, llvm::function_ref<void(const Loop &)> visit);

/// Whether the blocks of `loop` without `without` still hold a cycle.
bool hasCycleWithout(const Loop &loop, const CfgBlock &without);

} // namespace tally::ptx

#endif
