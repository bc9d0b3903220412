#include "loops.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace tally::ptx {
namespace {

/// A part of the CFG: the blocks in `inside`, without the edges into `cut`.
struct Region {
  std::vector<bool> inside;
  const CfgBlock *cut = nullptr;

  bool hasEdge(const CfgBlock &to) const { return inside[to.number] && &to != cut; }
};

/// Returns the components that hold a cycle, by Tarjan's algorithm without recursion.
std::vector<std::vector<CfgBlock *>> cycles(const std::vector<CfgBlock *> &blocks,
                                            const Region &region) {
  struct Frame {
    CfgBlock *block;
    std::size_t next;
  };
  std::size_t count = region.inside.size();
  std::vector<unsigned> index(count), low(count);
  std::vector<bool> onStack(count);
  std::vector<CfgBlock *> stack;
  std::vector<std::vector<CfgBlock *>> result;
  unsigned counter = 0;
  std::vector<Frame> frames;
  auto enter = [&](CfgBlock *block) {
    index[block->number] = low[block->number] = ++counter;
    stack.push_back(block);
    onStack[block->number] = true;
    frames.push_back({block, 0});
  };
  auto leave = [&](CfgBlock *block) {
    if (low[block->number] != index[block->number])
      return;
    std::vector<CfgBlock *> component;
    do {
      component.push_back(stack.back());
      onStack[stack.back()->number] = false;
      stack.pop_back();
    } while (component.back() != block);
    bool selfLoop = region.hasEdge(*block) && llvm::is_contained(block->successors, block);
    if (component.size() > 1 || selfLoop)
      result.push_back(std::move(component));
  };
  for (CfgBlock *start : blocks) {
    if (index[start->number])
      continue;
    enter(start);
    while (!frames.empty()) {
      CfgBlock *block = frames.back().block;
      if (frames.back().next == block->successors.size()) {
        frames.pop_back();
        leave(block);
        if (!frames.empty()) {
          unsigned above = frames.back().block->number;
          low[above] = std::min(low[above], low[block->number]);
        }
        continue;
      }
      CfgBlock *next = block->successors[frames.back().next++];
      if (!region.hasEdge(*next))
        continue;
      if (!index[next->number])
        enter(next);
      else if (onStack[next->number])
        low[block->number] = std::min(low[block->number], index[next->number]);
    }
  }
  return result;
}

} // namespace

void forEachLoop(const Cfg &cfg, llvm::function_ref<void(const Loop &)> visit) {
  // A loop whose header is the entry block has no edge from outside.
  const CfgBlock *entry = &cfg.front();
  Region reachable{std::vector<bool>(cfg.size())};
  std::vector<CfgBlock *> all = {cfg.blocks().front().get()};
  reachable.inside[entry->number] = true;
  for (std::size_t i = 0; i != all.size(); ++i)
    for (CfgBlock *next : all[i]->successors)
      if (!reachable.inside[next->number]) {
        reachable.inside[next->number] = true;
        all.push_back(next);
      }
  llvm::sort(all, [](const CfgBlock *a, const CfgBlock *b) { return a->number < b->number; });
  auto worklist = cycles(all, reachable);
  while (!worklist.empty()) {
    Loop loop{std::move(worklist.back()), std::vector<bool>(cfg.size())};
    worklist.pop_back();
    for (CfgBlock *block : loop.blocks)
      loop.contains[block->number] = true;
    std::vector<CfgBlock *> entries;
    for (CfgBlock *block : loop.blocks)
      if (block == entry || llvm::any_of(block->predecessors, [&](CfgBlock *before) {
            return reachable.inside[before->number] && !loop.has(*before);
          }))
        entries.push_back(block);
    loop.header = entries.size() == 1 ? entries.front() : nullptr;
    visit(loop);
    if (!loop.header)
      continue;
    for (auto &inner : cycles(loop.blocks, Region{loop.contains, loop.header}))
      worklist.push_back(std::move(inner));
  }
}

bool hasCycleWithout(const Loop &loop, const CfgBlock &without) {
  Region region{loop.contains};
  region.inside[without.number] = false;
  std::vector<CfgBlock *> rest;
  for (CfgBlock *block : loop.blocks)
    if (block != &without)
      rest.push_back(block);
  return !cycles(rest, region).empty();
}

bool everyLoopHasOneHead(const Cfg &cfg) {
  bool all = true;
  forEachLoop(cfg, [&](const Loop &each) { all &= each.header != nullptr; });
  return all;
}

} // namespace tally::ptx
