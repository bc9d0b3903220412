#include "tally/ptx/analysis/control_dependence.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/GenericDomTreeConstruction.h"

namespace tally::ptx {

ControlDependence::ControlDependence(Cfg &cfg)
    : controllersOf(cfg.size()), isReachable(walkFrom({&cfg.front()}, cfg.size(), true)) {
  std::vector<bool> ends = walkFrom({&cfg.exit()}, cfg.size(), false);
  for (std::size_t i = 0; i != cfg.size(); ++i)
    hasEndlessLoop |= isReachable[i] && !ends[i];

  PostDominatorTree tree;
  tree.recalculate(cfg);
  for (const auto &branch : cfg.blocks()) {
    if (branch->successors.size() < 2 || !isReachable[branch->number])
      continue;
    auto *branchNode = tree.getNode(branch.get());
    if (!branchNode)
      continue;
    for (CfgBlock *next : branch->successors)
      for (auto *node = tree.getNode(next);
           node && node != branchNode->getIDom() && node->getBlock(); node = node->getIDom()) {
        auto &list = controllersOf[node->getBlock()->number];
        if (!llvm::is_contained(list, branch.get()))
          list.push_back(branch.get());
      }
  }
}

} // namespace tally::ptx
