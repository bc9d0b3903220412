#include "tally/ptx/analysis/callee_barriers.h"

#include "tally/ptx/analysis/uniformity.h"

#include "llvm/ADT/STLExtras.h"

namespace tally::ptx {
namespace {

/// bar.sync a; barrier.sync{.aligned} a; bar.red.op d, a, p: for all threads of the block, with a
/// constant id.
bool isFullBlockForm(const Instruction &instruction) {
  std::size_t id = instruction.has("red") ? 1 : 0;
  return (id == 1 || instruction.has("sync")) && instruction.operands.size() == (id ? 3 : 1) &&
         instruction.operands[id].kind == OperandKind::Integer;
}

/// Returns the functions that hold a barrier or may call a function that does.
llvm::SetVector<const Function *> holders(const CallGraph &graph,
                                          const llvm::SetVector<const Function *> &callees) {
  llvm::SetVector<const Function *> holding;
  for (bool grows = true; grows;) {
    grows = false;
    for (const Function *callee : callees) {
      const FunctionFacts &facts = graph.factsOf(*callee);
      if (!facts.blockBarriers.empty() || llvm::any_of(facts.calls, [&](const CallSite &call) {
            return llvm::any_of(graph.targets(*callee, call),
                                [&](const Function *target) { return holding.contains(target); });
          }))
        grows |= holding.insert(callee);
    }
  }
  return holding;
}

} // namespace

std::vector<Finding> findCalleeBarriers(const CallGraph &graph, const Function &entry,
                                        const llvm::SetVector<const Function *> &callees) {
  std::vector<Finding> findings;
  llvm::SetVector<const Function *> holding = holders(graph, callees);
  auto check = [&](const Function &body) {
    const FunctionFacts &facts = graph.factsOf(body);
    Cfg cfg(body);
    if (cfg.unresolvedLabel())
      return; // found elsewhere
    ControlDependence dependence(cfg);
    Uniformity uniformity(cfg, dependence);
    auto diverges = [&](std::uint32_t statement) {
      return dependence.endless() || uniformity.ofExecution(statement) != Variation::None;
    };
    auto isReachable = [&](std::uint32_t statement) {
      return dependence.reachable(*cfg.blockOf(statement));
    };
    auto find = [&](std::uint32_t statement, const Function &callee) {
      findings.push_back(
          {Reason::BarrierInCallee, body.body[statement].text, std::string(callee.name)});
    };
    if (!body.isEntry)
      for (std::uint32_t barrier : facts.blockBarriers)
        if (isReachable(barrier) &&
            (diverges(barrier) || !isFullBlockForm(cfg.instruction(barrier))))
          find(barrier, body);
    for (const CallSite &call : facts.calls) {
      const std::vector<const Function *> &targets = graph.targets(body, call);
      auto holder =
          llvm::find_if(targets, [&](const Function *target) { return holding.contains(target); });
      if (holder != targets.end() && isReachable(call.statement) &&
          (diverges(call.statement) ||
           (call.pointer && uniformity.ofRegister(call.pointer->reg) != Variation::None)))
        find(call.statement, **holder);
    }
  };
  if (holding.empty())
    return findings;
  check(entry);
  for (const Function *callee : holding)
    check(*callee);
  return findings;
}

} // namespace tally::ptx
