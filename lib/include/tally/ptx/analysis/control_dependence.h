// Post-dominators and control dependence over our CFG.
#ifndef TALLY_PTX_ANALYSIS_CONTROL_DEPENDENCE_H
#define TALLY_PTX_ANALYSIS_CONTROL_DEPENDENCE_H

#include "tally/ptx/analysis/cfg.h"

#include "llvm/Support/GenericDomTree.h"

#include <vector>

namespace tally::ptx {

using PostDominatorTree = llvm::DominatorTreeBase<CfgBlock, true>;

/// The branches that decide whether a block runs (Ferrante, Ottenstein, Warren 1987): block X
/// depends on block B when one successor of B always leads to X and another may miss X. reachable()
/// tells whether the entry reaches a block, endless() whether some block cannot reach the exit.
class ControlDependence {
public:
  explicit ControlDependence(Cfg &cfg);

  /// Blocks whose terminator decides whether `block` runs; not iterated.
  const std::vector<const CfgBlock *> &controllers(const CfgBlock &block) const {
    return controllersOf[block.number];
  }
  /// Whether some reachable block cannot reach the exit; post-dominance then proves little.
  bool endless() const { return hasEndlessLoop; }
  bool reachable(const CfgBlock &block) const { return isReachable[block.number]; }

private:
  std::vector<std::vector<const CfgBlock *>> controllersOf;
  std::vector<bool> isReachable;
  bool hasEndlessLoop = false;
};

} // namespace tally::ptx

#endif
