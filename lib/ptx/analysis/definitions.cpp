#include "definitions.h"

#include "tally/ptx/analysis/opcodes.h"

#include "llvm/ADT/STLExtras.h"

namespace tally::ptx {
namespace {

/// Limit on copies followed; compilers write no longer chains.
constexpr unsigned maxCopies = 8;

bool isBlockIndexUpTo(const Cfg &cfg, const Definitions &definitions, const Operand &operand,
                      unsigned dimension, unsigned copies) {
  if (operand.negated)
    return false;
  if (operand.kind == OperandKind::SpecialRegister)
    return specialRegisterName(operand) == "ctaid" && operand.component.size() == 1 &&
           operand.component[0] == "xyz"[dimension];
  if (operand.kind != OperandKind::Register || !operand.component.empty() || copies == 0)
    return false;
  llvm::ArrayRef<std::uint32_t> assigned = definitions.of(operand.reg);
  return !assigned.empty() && llvm::all_of(assigned, [&](std::uint32_t statement) {
    const Instruction &mov = cfg.instruction(statement);
    return mov.opcode == "mov" && !mov.guard && mov.operands.size() == 2 &&
           mov.operands[0].kind == OperandKind::Register &&
           (mov.has("u32") || mov.has("s32") || mov.has("b32")) &&
           isBlockIndexUpTo(cfg, definitions, mov.operands[1], dimension, copies - 1);
  });
}

} // namespace

Definitions::Definitions(const Cfg &cfg) {
  for (const auto &block : cfg.blocks())
    add(cfg, *block);
}

Definitions::Definitions(const Cfg &cfg, const Loop &loop) {
  for (const CfgBlock *block : loop.blocks)
    add(cfg, *block);
}

void Definitions::add(const Cfg &cfg, const CfgBlock &block) {
  for (std::uint32_t statement : block.instructions)
    forEachWrittenRegister(cfg.instruction(statement),
                           [&](const Operand &each) { statements[each.reg].push_back(statement); });
}

llvm::ArrayRef<std::uint32_t> Definitions::of(RegisterId reg) const {
  auto found = statements.find(reg);
  return found == statements.end() ? llvm::ArrayRef<std::uint32_t>() : found->second;
}

RegisterId copiedRegister(const Instruction &instruction) {
  if ((instruction.opcode != "mov" && instruction.opcode != "cvta") || instruction.guard ||
      instruction.operands.size() != 2 || instruction.operands[0].kind != OperandKind::Register ||
      instruction.operands[1].kind != OperandKind::Register || instruction.operands[1].negated ||
      !instruction.operands[0].component.empty() || !instruction.operands[1].component.empty())
    return noRegister;
  return instruction.operands[1].reg;
}

bool isBlockIndex(const Cfg &cfg, const Definitions &definitions, const Operand &operand,
                  unsigned dimension) {
  return isBlockIndexUpTo(cfg, definitions, operand, dimension, maxCopies);
}

} // namespace tally::ptx
