#include "tally/ptx/analysis/joins.h"

#include "loops.h"
#include "tally/ptx/analysis/control_dependence.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/GenericDomTreeConstruction.h"

namespace tally::ptx {
namespace {

class Finder {
public:
  explicit Finder(Cfg &cfg) : cfg(cfg), dependence(cfg) {
    tree.recalculate(cfg);
    forEachLoop(cfg, [&](const Loop &loop) { loops.push_back(loop); });
    unsigned depth = 0;
    for (const Statement &each : cfg.function().body) {
      depth += each.kind == StatementKind::ScopeBegin;
      isOuter.push_back(depth == 1);
      depth -= each.kind == StatementKind::ScopeEnd;
    }
  }

  Joins run(const std::vector<std::uint32_t> &heads) {
    Joins result;
    result.ofHeads.resize(heads.size());
    if (dependence.endless())
      return result;
    for (std::uint32_t head : heads)
      addJoinsOf(*blockFrom(head));
    llvm::SmallVector<const CfgBlock *, 8> order(found.begin(), found.end());
    llvm::sort(order, [](const CfgBlock *a, const CfgBlock *b) {
      return a->instructions.front() < b->instructions.front();
    });
    llvm::DenseMap<const CfgBlock *, unsigned> numbers;
    for (const CfgBlock *each : order)
      numbers.try_emplace(each, numbers.size());
    auto firstBehind = [&](CfgBlock &block, const Loop *without) -> std::optional<unsigned> {
      for (CfgBlock *each = behind(block); each; each = behind(*each))
        if (auto at = numbers.find(each); at != numbers.end() && !(without && without->has(*each)))
          return at->second;
      return std::nullopt;
    };
    for (const CfgBlock *each : order)
      result.joins.push_back({each->instructions.front(),
                              firstBehind(*cfg.blockOf(each->instructions.front()), nullptr)});
    for (std::size_t i = 0; i != heads.size(); ++i) {
      CfgBlock &head = *blockFrom(heads[i]);
      result.ofHeads[i] = firstBehind(head, loopOf(head));
    }
    return result;
  }

private:
  /// The block of the first instruction from the statement on.
  CfgBlock *blockFrom(std::uint32_t statement) const {
    while (!cfg.blockOf(statement))
      ++statement;
    return cfg.blockOf(statement);
  }

  const Loop *loopOf(const CfgBlock &head) const {
    auto at = llvm::find_if(loops, [&](const Loop &each) { return each.header == &head; });
    return at == loops.end() ? nullptr : &*at;
  }

  /// The immediate post-dominator; null for the exit, and behind it.
  CfgBlock *behind(CfgBlock &block) const {
    auto *node = tree.getNode(&block);
    CfgBlock *result = node && node->getIDom() ? node->getIDom()->getBlock() : nullptr;
    return result == &cfg.exit() ? nullptr : result;
  }

  void addJoinsOf(CfgBlock &head) {
    const Loop *loop = loopOf(head);
    llvm::SetVector<const CfgBlock *> worklist;
    worklist.insert(&head);
    for (std::size_t i = 0; i != worklist.size(); ++i)
      for (const CfgBlock *branch : dependence.controllers(*worklist[i])) {
        worklist.insert(branch);
        CfgBlock *join = behind(*cfg.blockOf(branch->instructions.back()));
        if (join && join != &head && !(loop && loop->has(*join)) && !join->instructions.empty() &&
            isOuter[join->instructions.front()])
          found.insert(join);
      }
  }

  Cfg &cfg;
  ControlDependence dependence;
  PostDominatorTree tree;
  std::vector<Loop> loops;
  std::vector<bool> isOuter; ///< by statement
  llvm::SetVector<const CfgBlock *> found;
};

} // namespace

Joins findJoins(Cfg &cfg, const std::vector<std::uint32_t> &heads) {
  return Finder(cfg).run(heads);
}

} // namespace tally::ptx
