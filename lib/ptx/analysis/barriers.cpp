#include "tally/ptx/analysis/barriers.h"

#include "loops.h"
#include "member_mask.h"
#include "tally/ptx/analysis/opcodes.h"

#include <bit>

namespace tally::ptx {
namespace {

constexpr unsigned barrierCount = 16;

/// Returns the possible barrier ids of `operand`, as bits: a constant, or a register that only
/// moves of constants assign. Returns nothing where they are not known, or are no barrier ids.
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

/// A callee may have loops and barriers. ptxas turns atomics on shared memory of floating-point and
/// 64-bit types into loops that each thread leaves when its exchange succeeds.
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

  // Barriers that no thread reaches count too: the variant's text holds them.
  void seeBarrier(std::uint32_t barrier) {
    const Instruction &instruction = cfg.instruction(barrier);
    switch (barrierFormOf(instruction)) {
    case BarrierForm::Full:
      result.plan.reduces |= instruction.has("red");
      if (!isReachable(barrier) || executionOf(barrier) == Variation::None)
        return;
      // A warp takes part in a barrier as a whole in hardware: lanes at different barriers hang. So
      // a warp parks as a whole too.
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

  /// No part of the warp may be at the loop's head when another part reaches `statement`.
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

  /// Chooses the lowest id that the body names with no count. Every id that it names without a
  /// count would do: where the block parks, all of them become the loop's barrier, and elsewhere
  /// all threads reach them.
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
  std::uint32_t countedIds = 0; ///< possible ids of barriers with a count, as bits
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
  // Loops without a single head, and code where post-dominance proves little, are not told apart.
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
