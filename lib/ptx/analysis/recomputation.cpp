#include "recomputation.h"

#include "string_ref.h"
#include "tally/ptx/analysis/opcodes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/GenericDomTreeConstruction.h"

namespace tally::ptx {
namespace {

/// Whether the operands alone determine the result, within a few cycles.
bool isArithmetic(const Instruction &instruction) {
  if (instruction.has("cc"))
    return false;
  return llvm::StringSwitch<bool>(ref(instruction.opcode))
      .Cases({"add", "sub", "mul", "mad", "fma", "mul24", "neg", "abs", "min", "max"}, true)
      .Cases({"and", "or", "xor", "not", "cnot", "lop3", "shl", "shr", "shf"}, true)
      .Cases({"bfe", "bfi", "prmt", "cvt", "selp", "setp", "mov"}, true)
      .Default(false);
}

/// `mov` of one component of %ctaid or %nctaid, 32 bits wide.
bool readsGrid(const Instruction &instruction) {
  const Operand &source = instruction.operands[1];
  std::string_view name = specialRegisterName(source);
  return (name == "ctaid" || name == "nctaid") && instruction.opcode == "mov" &&
         instruction.modifiers.size() == 1 && instruction.modifiers[0].ends_with("32") &&
         source.component.size() == 1 && source.component[0] >= 'x' && source.component[0] <= 'z';
}

} // namespace

RecomputationFacts::RecomputationFacts(Cfg &cfg, const llvm::DenseSet<RegisterId> &innerRegisters,
                                       const llvm::StringSet<> &innerVariables)
    : cfg(cfg), innerRegisters(innerRegisters), innerVariables(innerVariables),
      assignedBy(cfg.function().registerCount, never) {
  dominators.recalculate(cfg);
  const Function &function = cfg.function();
  for (std::uint32_t i = 0; i != function.body.size(); ++i)
    if (function.body[i].kind == StatementKind::Instruction)
      forEachWrittenRegister(function.body[i].instruction, [&](const Operand &each) {
        std::uint32_t &by = assignedBy[each.reg];
        by = by == never && each.component.empty() ? i : several;
      });
}

/// Whether each path to `other` passes `statement` before.
bool RecomputationFacts::dominates(std::uint32_t statement, std::uint32_t other) const {
  const CfgBlock *first = cfg.blockOf(statement), *second = cfg.blockOf(other);
  return first && second &&
         (first == second ? statement < other : dominators.dominates(first, second));
}

Recomputation::Recomputation(const RecomputationFacts &facts, const CfgBlock &header,
                             const std::vector<RegisterId> &live)
    : facts(facts), header(header), live(live.begin(), live.end()) {}

/// Whether the operand of `reader` has the same value at the head, or can be recomputed there.
bool Recomputation::isSource(const Operand &operand, std::uint32_t reader, unsigned depth) {
  switch (operand.kind) {
  case OperandKind::Register: {
    if (!operand.component.empty())
      return false;
    if (Answer answer = ask(operand.reg, depth); answer != Answer::No)
      return answer == Answer::Yes;
    std::uint32_t by = facts.assignedBy[operand.reg];
    return live.contains(operand.reg) && by != facts.never && by != facts.several &&
           facts.dominates(by, reader) && facts.cfg.blockOf(reader) != &header &&
           facts.dominates(reader, header.instructions.front());
  }
  case OperandKind::Integer:
  case OperandKind::Float32:
  case OperandKind::Float64:
    return true;
  case OperandKind::Symbol:
    return !facts.innerVariables.contains(ref(operand.symbol));
  case OperandKind::SpecialRegister: {
    std::string_view name = specialRegisterName(operand);
    return name == "tid" || name == "ntid" || name == "laneid" ||
           readsGrid(facts.cfg.instruction(reader));
  }
  default:
    return false;
  }
}

/// Whether a load from .param space reads the entry's parameters and not a call's result. Registers
/// get parameter addresses from a move of a name.
bool Recomputation::isParameter(const Operand &base) const {
  const Cfg &cfg = facts.cfg;
  const Operand *address = &base;
  for (unsigned copies = 0; address->kind == OperandKind::Register; ++copies) {
    std::uint32_t by = facts.assignedBy[address->reg];
    if (by == facts.never || by == facts.several || copies == maxDepth)
      return false;
    const Instruction &instruction = cfg.instruction(by);
    if (instruction.opcode != "mov" || instruction.operands.size() != 2)
      return false;
    address = &instruction.operands[1];
  }
  return address->kind == OperandKind::Symbol &&
         llvm::any_of(cfg.function().parameters,
                      [&](const Variable &each) { return each.name == address->symbol; });
}

bool Recomputation::makes(std::uint32_t statement, unsigned depth) {
  const Instruction &instruction = facts.cfg.instruction(statement);
  if (instruction.guard || instruction.operands.size() < 2 ||
      instruction.operands[0].kind != OperandKind::Register)
    return false;
  const Operand &source = instruction.operands[1];
  if (instruction.opcode == "ld" && instruction.has("param"))
    return instruction.operands.size() == 2 && source.children.size() == 1 &&
           isSource(source.children[0], statement, depth) && isParameter(source.children[0]);
  if (!isArithmetic(instruction) && !(instruction.opcode == "cvta" && instruction.has("to")))
    return false;
  unsigned written = 0;
  forEachWrittenRegister(instruction, [&](const Operand &) { ++written; });
  return written == 1 && llvm::all_of(instruction.operands.subspan(1), [&](const Operand &each) {
           return isSource(each, statement, depth);
         });
}

Recomputation::Answer Recomputation::ask(RegisterId reg, unsigned depth) {
  if (auto found = known.find(reg); found != known.end())
    return found->second;
  std::uint32_t by = facts.assignedBy[reg];
  if (depth == 0 || by == facts.never || by == facts.several || facts.innerRegisters.contains(reg))
    return known[reg] = Answer::No;
  known[reg] = Answer::Open;
  Answer answer = makes(by, depth - 1) ? Answer::Yes : Answer::No;
  return known[reg] = answer;
}

void Recomputation::addTo(llvm::SetVector<std::uint32_t> &statements, RegisterId reg) {
  std::uint32_t by = facts.assignedBy[reg];
  if (statements.contains(by))
    return;
  forEachReadRegister(facts.cfg.instruction(by), [&](const Operand &each) {
    if (canMake(each.reg))
      addTo(statements, each.reg);
  });
  statements.insert(by);
}

} // namespace tally::ptx
