#include "tally/ptx/analysis/register_values.h"

#include "tally/ptx/analysis/opcodes.h"

#include <algorithm>

namespace tally::ptx {
namespace {

/// Whether the instruction ends the previous values of the registers that it writes.
bool overwrites(const Instruction &instruction, ResultKind result) {
  return !instruction.guard && result != ResultKind::None && result != ResultKind::Unknown &&
         instruction.opcode != "wgmma" && instruction.opcode != "tcgen05";
}

} // namespace

/// Searches the values of a use upwards, block by block, up to their assignments.
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
    // The search goes from uses to assignments; in reverse order most flows need one visit.
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

  /// Creates a value for each assignment.
  void assign(const CfgBlock &block) {
    for (std::uint32_t statement : block.instructions)
      forEachWrittenRegister(cfg.instruction(statement), [&](const Operand &each) {
        if (isSplit(each))
          last[{block.number, each.reg}] = result.values[&each] = add();
      });
  }

  /// Finds the values of reads, and the old values that partial assignments keep.
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
      // Written operands have their values already.
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

  /// Returns the value of `reg` at the end of `block`.
  Id atEnd(const CfgBlock &block, RegisterId reg) {
    auto assigned = last.find({block.number, reg});
    return assigned == last.end() ? atEntry(block, reg) : assigned->second;
  }

  Id atEntry(const CfgBlock &begin, RegisterId reg) {
    // A block with one predecessor has the value of that predecessor.
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
  std::vector<std::uint32_t> assignments; ///< number of assignments, by register
  std::vector<bool> reachable;
  llvm::DenseMap<Place, Id> last;    ///< values assigned in a block
  llvm::DenseMap<Place, Id> entered; ///< values live at a block's begin
  std::vector<Place> open;           ///< entries of `entered` still to follow
};

RegisterValues::RegisterValues(const Cfg &cfg) : total(cfg.function().registerCount) {
  RegisterValuesBuilder(cfg, *this).run();
}

} // namespace tally::ptx
