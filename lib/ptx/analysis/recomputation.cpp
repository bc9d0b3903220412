#include "recomputation.h"

#include "tally/ptx/analysis/opcodes.h"

#include "llvm/ADT/STLExtras.h"

namespace tally::ptx {

Recomputation::Recomputation(const Cfg &cfg, const llvm::DenseSet<RegisterId> &innerRegisters,
                             const llvm::StringSet<> &innerVariables)
    : cfg(cfg), innerRegisters(innerRegisters), innerVariables(innerVariables),
      assignedBy(cfg.function().registerCount, never) {
  const Function &function = cfg.function();
  for (std::uint32_t i = 0; i != function.body.size(); ++i)
    if (function.body[i].kind == StatementKind::Instruction)
      forEachWrittenRegister(function.body[i].instruction, [&](const Operand &each) {
        std::uint32_t &by = assignedBy[each.reg];
        by = by == never && each.component.empty() ? i : several;
      });
}

/// Whether an operand is the same for the thread at any time, whoever runs it.
bool Recomputation::isSource(const Operand &operand) {
  switch (operand.kind) {
  case OperandKind::Register:
    return operand.component.empty() && !operand.negated && canMake(operand.reg);
  case OperandKind::Integer:
  case OperandKind::Float32:
  case OperandKind::Float64:
    return true;
  case OperandKind::Symbol:
    return !innerVariables.contains(llvm::StringRef(operand.symbol.data(), operand.symbol.size()));
  case OperandKind::SpecialRegister: {
    std::string_view name = specialRegisterName(operand);
    return name == "tid" || name == "ntid" || name == "laneid";
  }
  default:
    return false;
  }
}

/// Of a load from .param space: whether it is the entry's parameters that it loads from, not a
/// call's result. Their addresses in registers come from a move of a name.
bool Recomputation::isParameter(const Operand &base) const {
  if (base.kind == OperandKind::Symbol)
    return llvm::any_of(cfg.function().parameters,
                        [&](const Variable &each) { return each.name == base.symbol; });
  if (base.kind != OperandKind::Register)
    return false;
  const Instruction &instruction = cfg.instruction(assignedBy[base.reg]);
  return instruction.opcode == "mov" && isParameter(instruction.operands[1]);
}

bool Recomputation::canMake(RegisterId reg) {
  if (auto found = known.find(reg); found != known.end())
    return found->second;
  known[reg] = false; // what depends on itself
  std::uint32_t by = assignedBy[reg];
  if (by == never || by == several || innerRegisters.contains(reg))
    return false;
  const Instruction &instruction = cfg.instruction(by);
  if (instruction.guard || instruction.operands.size() != 2 ||
      instruction.operands[0].kind != OperandKind::Register)
    return false;
  const Operand &source = instruction.operands[1];
  bool makes = false;
  if (instruction.opcode == "ld" && instruction.has("param"))
    makes = source.children.size() == 1 && isSource(source.children[0]) &&
            isParameter(source.children[0]);
  else if (instruction.opcode == "mov" || (instruction.opcode == "cvta" && instruction.has("to")))
    makes = isSource(source);
  return known[reg] = makes;
}

void Recomputation::addTo(std::vector<std::uint32_t> &statements, RegisterId reg) const {
  std::uint32_t by = assignedBy[reg];
  if (llvm::is_contained(statements, by))
    return;
  statements.push_back(by);
  forEachReadRegister(cfg.instruction(by),
                      [&](const Operand &each) { addTo(statements, each.reg); });
}

} // namespace tally::ptx
