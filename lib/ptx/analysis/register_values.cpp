#include "tally/ptx/analysis/register_values.h"

#include "tally/ptx/analysis/opcodes.h"

#include <algorithm>

namespace tally::ptx {
namespace {

/// Whether what the registers held that it writes is gone afterwards.
bool overwrites(const Instruction &instruction, ResultKind result) {
  return !instruction.guard && result != ResultKind::None && result != ResultKind::Unknown &&
         instruction.opcode != "wgmma" && instruction.opcode != "tcgen05";
}

} // namespace

/// Looks for the values of a use upwards, from block to block, as far as they are not assigned.
class RegisterValuesBuilder {
public:
  using Id = RegisterValues::Id;

  RegisterValuesBuilder(const Cfg &cfg, RegisterValues &result)
      : cfg(cfg), result(result), assignments(cfg.function().registerCount, 0),
        reachable(walkFrom({&cfg.front()}, cfg.size(), true)) {}

  void run() {
    countAssignments();
    forEachReachable([&](const CfgBlock &block) { assign(block); });
    forEachReachable([&](const CfgBlock &block) { read(block); });
    while (!open.empty()) {
      auto [block, reg] = open.back();
      open.pop_back();
      enter(*cfg.blocks()[block], reg);
    }
    // Found from uses to assignments: this way round most of them need one visit.
    std::ranges::reverse(result.flowsTo);
  }

private:
  using Place = std::pair<unsigned, RegisterId>; ///< a block's number and a register

  void countAssignments() {
    for (const auto &block : cfg.blocks())
      for (std::uint32_t statement : block->instructions)
        forEachWrittenRegister(cfg.instruction(statement),
                               [&](const Operand &each) { ++assignments[each.reg]; });
  }

  bool isSplit(const Operand &operand) const { return assignments[operand.reg] > 1; }
  Id add() { return static_cast<Id>(result.total++); }
  void flow(Id from, Id to) { result.flowsTo.emplace_back(from, to); }

  template <class Visit> void forEachReachable(Visit &&visit) {
    for (const auto &block : cfg.blocks())
      if (reachable[block->number])
        visit(*block);
  }

  /// Gives each assignment its value.
  void assign(const CfgBlock &block) {
    for (std::uint32_t statement : block.instructions)
      forEachWrittenRegister(cfg.instruction(statement), [&](const Operand &each) {
        if (isSplit(each))
          last[{block.number, each.reg}] = result.values[&each] = add();
      });
  }

  /// Finds the values of what is read, and of what an assignment leaves in part.
  void read(const CfgBlock &block) {
    llvm::DenseMap<RegisterId, Id> assigned; // so far
    auto current = [&](RegisterId reg) {
      auto found = assigned.find(reg);
      return found == assigned.end() ? atEntry(block, reg) : found->second;
    };
    auto see = [&](const Operand &operand) {
      if (operand.kind == OperandKind::Register && isSplit(operand))
        result.values.try_emplace(&operand, current(operand.reg));
    };
    for (std::uint32_t statement : block.instructions) {
      const Instruction &instruction = cfg.instruction(statement);
      ResultKind kind = resultKindOf(instruction);
      if (instruction.guard)
        see(instruction.guard->predicate);
      // What is assigned has its value already.
      forEachReadRegister(instruction, kind, see);
      forEachWrittenRegister(instruction, kind, [&](const Operand &each) {
        if (!isSplit(each))
          return;
        Id value = result.values.lookup(&each);
        if (!overwrites(instruction, kind) || !each.component.empty())
          flow(current(each.reg), value);
        assigned[each.reg] = value;
      });
    }
  }

  /// What `reg` holds where `block` ends.
  Id atEnd(const CfgBlock &block, RegisterId reg) {
    auto assigned = last.find({block.number, reg});
    return assigned == last.end() ? atEntry(block, reg) : assigned->second;
  }

  Id atEntry(const CfgBlock &begin, RegisterId reg) {
    // Of blocks with one way in, where that comes from.
    const CfgBlock *block = &begin;
    while (block->predecessors.size() == 1 && block != &cfg.front()) {
      block = block->predecessors.front();
      if (auto assigned = last.find({block->number, reg}); assigned != last.end())
        return assigned->second;
    }
    auto [found, isNew] = entered.try_emplace({block->number, reg}, 0);
    if (isNew) {
      found->second = add();
      open.emplace_back(block->number, reg);
    }
    return found->second;
  }

  void enter(const CfgBlock &block, RegisterId reg) {
    Id value = entered.lookup({block.number, reg});
    if (&block == &cfg.front())
      flow(reg, value);
    for (const CfgBlock *before : block.predecessors)
      if (reachable[before->number])
        flow(atEnd(*before, reg), value);
  }

  const Cfg &cfg;
  RegisterValues &result;
  std::vector<std::uint32_t> assignments; ///< how many, by register
  std::vector<bool> reachable;
  llvm::DenseMap<Place, Id> last;    ///< assigned in a block
  llvm::DenseMap<Place, Id> entered; ///< live where a block begins
  std::vector<Place> open;           ///< of these, still to be followed
};

RegisterValues::RegisterValues(const Cfg &cfg) : total(cfg.function().registerCount) {
  RegisterValuesBuilder(cfg, *this).run();
}

} // namespace tally::ptx
