#include "tally/ptx/analysis/barriers.h"

#include "loops.h"
#include "member_mask.h"
#include "tally/ptx/analysis/opcodes.h"

#include <bit>

namespace tally::ptx {
namespace {

constexpr unsigned barrierCount = 16;

/// Bits of the values that `operand` may have as a barrier's id: a constant, or a register that
/// only moves of constants assign. Nothing where that is not known, or is no barrier's id.
std::optional<std::uint32_t> possibleIds(const Function &function, const Operand &operand) {
  auto bitOf = [](const Operand &value) -> std::optional<std::uint32_t> {
    if (value.kind != OperandKind::Integer || value.bits >= barrierCount)
      return std::nullopt;
    return std::uint32_t{1} << value.bits;
  };
  if (operand.kind != OperandKind::Register || !operand.component.empty())
    return bitOf(operand);
  std::uint32_t ids = 0;
  bool known = true;
  for (const Statement &statement : function.body) {
    if (statement.kind != StatementKind::Instruction)
      continue;
    const Instruction &instruction = statement.instruction;
    forEachWrittenRegister(instruction, [&](const Operand &written) {
      if (written.reg != operand.reg)
        return;
      auto id = instruction.opcode == "mov" && instruction.operands.size() == 2
                    ? bitOf(instruction.operands[1])
                    : std::nullopt;
      known &= id.has_value();
      ids |= id.value_or(0);
    });
  }
  return known && ids ? std::optional(ids) : std::nullopt;
}

/// A callee may have loops and barriers. And of atomics on shared memory of floating-point and
/// 64-bit types ptxas makes loops that each thread leaves when its exchange was the one.
bool maySplit(const Instruction &instruction) {
  return instruction.opcode == "call" ||
         ((instruction.opcode == "atom" || instruction.opcode == "red") &&
          !instruction.has("global"));
}
bool mayMeet(const Instruction &instruction) {
  return instruction.opcode == "call" || isBlockBarrier(instruction);
}

class Checker {
public:
  Checker(const Module &module, const Cfg &cfg, const ControlDependence &dependence,
          const Uniformity &uniformity, const FunctionFacts &facts)
      : module(module), cfg(cfg), dependence(dependence), uniformity(uniformity), facts(facts) {}

  Convergence run() {
    for (std::uint32_t barrier : facts.blockBarriers)
      seeBarrier(barrier);
    MemberMasks masks(cfg);
    for (std::uint32_t sync : facts.warpSyncs)
      if (isReachable(sync) && !masks.nameOnlyComers(sync))
        needWholeWarp(sync);
    if (result.plan.spends)
      result.plan.needsWholeWarpRows = false;
    result.plan.reduces &= result.plan.parks;
    chooseBarrier();
    return std::move(result);
  }

private:
  void find(Reason reason, std::uint32_t statement) {
    result.findings.push_back({reason, cfg.function().body[statement].text, {}});
  }
  bool isReachable(std::uint32_t statement) const {
    return dependence.reachable(*cfg.blockOf(statement));
  }
  Variation executionOf(std::uint32_t statement) const {
    return dependence.endless() ? Variation::Threads : uniformity.ofExecution(statement);
  }

  // Barriers that no thread reaches count too: their text is in the variant.
  void seeBarrier(std::uint32_t barrier) {
    const Instruction &instruction = cfg.instruction(barrier);
    switch (barrierFormOf(instruction)) {
    case BarrierForm::Full:
      result.plan.reduces |= instruction.has("red");
      if (!isReachable(barrier) || executionOf(barrier) == Variation::None)
        return;
      // Hardware has a warp take part in a barrier as a whole: lanes that stand at different ones
      // hang. So a warp parks as a whole too.
      result.plan.parks = result.plan.spends = true;
      if (!canSpend(module))
        find(Reason::DivergentBarrier, barrier);
      return;
    case BarrierForm::Counted:
      if (auto ids = possibleIds(cfg.function(), barrierIdOf(instruction)))
        countedIds |= *ids;
      else
        find(Reason::BarrierForm, barrier);
      if (isReachable(barrier))
        needWholeWarp(barrier);
      return;
    case BarrierForm::Arrive:
    case BarrierForm::Other:
      find(Reason::BarrierForm, barrier);
      return;
    }
  }

  /// No part of the warp may be at the loop's head when another comes to `statement`.
  void needWholeWarp(std::uint32_t statement) {
    Variation execution = executionOf(statement);
    result.plan.needsWholeWarpRows |= execution == Variation::Warps;
    if (execution != Variation::Threads)
      return;
    result.plan.spends = true;
    if (!canSpend(module))
      find(isBlockBarrier(cfg.instruction(statement)) ? Reason::DivergentBarrier
                                                      : Reason::DivergentWarpSync,
           statement);
  }

  /// The lowest id that the body names with no count. Of those it names without one each is as
  /// good: where the block parks they all become the loop's, and elsewhere all threads reach them.
  void chooseBarrier() {
    result.plan.barrier = static_cast<unsigned>(std::countr_one(countedIds));
    if (result.plan.barrier >= barrierCount)
      find(Reason::BarrierForm, facts.blockBarriers.front());
  }

  const Module &module;
  const Cfg &cfg;
  const ControlDependence &dependence;
  const Uniformity &uniformity;
  const FunctionFacts &facts;
  Convergence result;
  std::uint32_t countedIds = 0; ///< bits of ids that barriers with a count may have
};

} // namespace

bool mayPartWarps(const Cfg &cfg, const ControlDependence &dependence,
                  const Uniformity &uniformity) {
  std::vector<const CfgBlock *> ahead;
  for (const auto &block : cfg.blocks())
    if (std::ranges::any_of(block->instructions,
                            [&](std::uint32_t each) { return mayMeet(cfg.instruction(each)); }))
      llvm::append_range(ahead, block->predecessors);
  std::vector<bool> leads = walkFrom(ahead, cfg.size(), false);

  std::vector<Loop> loops;
  forEachLoop(cfg, [&](const Loop &each) { loops.push_back(each); });
  auto isLeftAt = [](const Loop &loop, const CfgBlock &block) {
    return loop.has(block) &&
           !llvm::all_of(block.successors, [&](const CfgBlock *next) { return loop.has(*next); });
  };
  // Of loops without a single head, and where post-dominance says little, nothing is told apart.
  bool anywhere = dependence.endless() ||
                  std::ranges::any_of(loops, [](const Loop &each) { return !each.header; });
  for (const auto &block : cfg.blocks()) {
    bool parts = (dependence.endless() || uniformity.ofBranch(*block) != Variation::None) &&
                 (anywhere || std::ranges::any_of(
                                  loops, [&](const Loop &loop) { return isLeftAt(loop, *block); }));
    bool splits = false;
    for (std::uint32_t each : block->instructions) {
      splits |= maySplit(cfg.instruction(each));
      if (splits && mayMeet(cfg.instruction(each)))
        return true;
    }
    if (leads[block->number] && (parts || splits))
      return true;
  }
  return false;
}

bool canSpend(const Module &module) {
  return module.targetArch() >= 70 &&
         (module.versionMajor() > 6 || (module.versionMajor() == 6 && module.versionMinor() >= 2));
}

Convergence checkConvergence(const Module &module, const Cfg &cfg,
                             const ControlDependence &dependence, const Uniformity &uniformity,
                             const FunctionFacts &facts) {
  Convergence result = Checker(module, cfg, dependence, uniformity, facts).run();
  result.plan.partsWarps = mayPartWarps(cfg, dependence, uniformity);
  return result;
}

} // namespace tally::ptx
