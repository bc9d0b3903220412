#include "tally/ptx/analysis/control_dependence.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/GenericDomTreeConstruction.h"

namespace tally::ptx {
namespace {

/// Marks what a walk along successors (or predecessors) from `start` meets.
std::vector<bool> reach(const CfgBlock &start, std::size_t count, bool forward) {
  std::vector<bool> met(count);
  llvm::SmallVector<const CfgBlock *, 32> worklist = {&start};
  met[start.number] = true;
  while (!worklist.empty()) {
    const CfgBlock *block = worklist.pop_back_val();
    for (CfgBlock *next : forward ? block->successors : block->predecessors)
      if (!met[next->number]) {
        met[next->number] = true;
        worklist.push_back(next);
      }
  }
  return met;
}

} // namespace

ControlDependence::ControlDependence(Cfg &cfg)
    : controllersOf(cfg.size()), isReachable(reach(cfg.front(), cfg.size(), true)) {
  std::vector<bool> ends = reach(cfg.exit(), cfg.size(), false);
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
