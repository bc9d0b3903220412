#include "tally/ptx/analysis/barriers.h"

#include "tally/ptx/analysis/opcodes.h"

namespace tally::ptx {
namespace {

/// bar.sync a; barrier.sync{.aligned} a; bar.red.op d, a, p: all threads of the block, id constant.
bool isFullBlockForm(const Instruction &instruction) {
  bool reduces = instruction.has("red");
  if (!reduces && !instruction.has("sync") && !instruction.operands.empty() &&
      instruction.has("arrive"))
    return false;
  std::size_t expected = reduces ? 3 : 1;
  if (instruction.operands.size() != expected)
    return false;
  return (reduces || instruction.has("sync")) &&
         instruction.operands[reduces ? 1 : 0].kind == OperandKind::Integer;
}

} // namespace

Convergence checkConvergence(const Cfg &cfg, const ControlDependence &dependence,
                             const Uniformity &uniformity, const FunctionFacts &facts) {
  Convergence result;
  auto find = [&](Reason reason, std::uint32_t statement) {
    result.findings.push_back({reason, cfg.function().body[statement].text, {}});
  };
  auto isReachable = [&](std::uint32_t statement) {
    return dependence.reachable(*cfg.blockOf(statement));
  };
  for (std::uint32_t barrier : facts.blockBarriers) {
    if (!isReachable(barrier))
      continue;
    if (!isFullBlockForm(cfg.instruction(barrier)))
      find(Reason::BarrierForm, barrier);
    else if (dependence.endless() || uniformity.ofExecution(barrier) != Variation::None)
      find(Reason::DivergentBarrier, barrier);
  }
  for (std::uint32_t sync : facts.warpSyncs) {
    if (!isReachable(sync))
      continue;
    Variation execution = uniformity.ofExecution(sync);
    if (dependence.endless() || execution == Variation::Threads)
      find(Reason::DivergentWarpSync, sync);
    result.needsWholeWarpRows |= execution == Variation::Warps;
  }
  return result;
}

} // namespace tally::ptx
