#include "tally/ptx/analysis/uniformity.h"

#include "tally/ptx/analysis/opcodes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSwitch.h"

#include <algorithm>

namespace tally::ptx {
namespace {

/// Special registers with one value for a whole block (PTX ISA 9.0, chapter 10). %smid and similar
/// registers are physical, but a block does not move.
Variation ofSpecialRegister(const Operand &operand) {
  std::string_view name = specialRegisterName(operand);
  return llvm::StringSwitch<Variation>(llvm::StringRef(name.data(), name.size()))
      .Case("ntid", Variation::None)
      .Case("ctaid", Variation::None)
      .Case("nctaid", Variation::None)
      .Case("nwarpid", Variation::None)
      .Case("smid", Variation::None)
      .Case("nsmid", Variation::None)
      .Case("gridid", Variation::None)
      .Case("total_smem_size", Variation::None)
      .Case("dynamic_smem_size", Variation::None)
      .Case("aggr_smem_size", Variation::None)
      .Case("warpid", Variation::Warps)
      .Case("tid", operand.component == "y" || operand.component == "z" ? Variation::Warps
                                                                        : Variation::Threads)
      .Default(Variation::Threads);
}

bool isEntryParameter(const Function &function, std::string_view symbol) {
  return function.isEntry && llvm::any_of(function.parameters, [&](const Variable &each) {
           return each.name == symbol;
         });
}

/// Whether vote.sync or redux.sync gives all threads of the warp one value.
bool isWholeWarpVote(const Instruction &instruction) {
  if (!instruction.has("sync") || instruction.operands.empty())
    return false;
  const Operand &mask = instruction.operands.back();
  return (instruction.opcode == "vote" || instruction.opcode == "redux") &&
         mask.kind == OperandKind::Integer && (mask.bits & 0xffffffff) == 0xffffffff;
}

} // namespace

Uniformity::Uniformity(const Cfg &cfg, const ControlDependence &dependence)
    : cfg(cfg), dependence(dependence), values(cfg), variations(values.count(), Variation::None),
      control(cfg.size(), Variation::None), shapes(values.count(), Shape::Unset) {
  for (const Statement &statement : cfg.function().body)
    for (const Variable &variable : statement.variables)
      hasLocalParameters |= variable.space == StateSpace::Param;
  if (!cfg.function().isEntry)
    assumeArgumentsVary();
  while (update())
    ;
}

void Uniformity::assumeArgumentsVary() {
  hasLocalParameters = true;
  for (const std::vector<Variable> *list : {&cfg.function().parameters, &cfg.function().results})
    for (const Variable &each : *list)
      for (const RegisterDeclaration &declaration : cfg.function().registers)
        if (each.space == StateSpace::Register && declaration.name == each.name)
          for (std::uint32_t i = 0; i != declaration.count; ++i)
            add(declaration.first + i, Variation::Threads, Shape::Other);
}

Variation Uniformity::ofOperand(const Operand &operand) const {
  Variation most = Variation::None;
  forEachOperand(operand, [&](const Operand &each) {
    if (each.kind == OperandKind::Register)
      most = std::max(most, ofValue(each));
    else if (each.kind == OperandKind::SpecialRegister)
      most = std::max(most, ofSpecialRegister(each));
  });
  return most;
}

Variation Uniformity::ofLoad(const Instruction &instruction) const {
  if (instruction.operands.size() < 2 || instruction.operands[1].children.empty())
    return Variation::Threads;
  const Operand &base = instruction.operands[1].children[0];
  bool readOnly = instruction.has("const") || (instruction.has("global") && instruction.has("nc"));
  // The .param space also holds the arguments and results of calls in this body.
  if (instruction.has("param"))
    readOnly = base.kind == OperandKind::Symbol ? isEntryParameter(cfg.function(), base.symbol)
                                                : !hasLocalParameters;
  return readOnly ? ofOperand(instruction.operands[1]) : Variation::Threads;
}

Variation Uniformity::ofPure(const Instruction &instruction) const {
  // Every thread gets the block's one value; with a thread count, the value of the threads that
  // met.
  if (isBlockBarrier(instruction))
    return barrierFormOf(instruction) == BarrierForm::Full ? Variation::None : Variation::Threads;
  Variation most = Variation::None;
  if (instruction.opcode == "addc" || instruction.opcode == "subc" || instruction.opcode == "madc")
    most = carry;
  bool first = true;
  for (const Operand &operand : instruction.operands) {
    if (!first)
      most = std::max(most, ofOperand(operand));
    first = false;
  }
  return most == Variation::Threads && dropsLane(instruction) ? Variation::Warps : most;
}

Variation Uniformity::ofResult(const Instruction &instruction, ResultKind kind) const {
  switch (kind) {
  case ResultKind::Memory:
    return ofLoad(instruction);
  case ResultKind::Pure:
    return ofPure(instruction);
  case ResultKind::Varying:
    return isWholeWarpVote(instruction) ? Variation::Warps : Variation::Threads;
  case ResultKind::None:
  case ResultKind::Unknown:
    break;
  }
  return Variation::Threads;
}

Variation Uniformity::ofBranch(const CfgBlock &block) const {
  const Instruction *last = cfg.terminator(block);
  if (!last || block.successors.size() < 2)
    return Variation::None;
  Variation most = last->guard ? ofOperand(last->guard->predicate) : Variation::None;
  if (last->opcode == "brx")
    for (const Operand &operand : last->operands)
      most = std::max(most, ofOperand(operand));
  return most;
}

Variation Uniformity::ofExecution(std::uint32_t statement) const {
  const CfgBlock *block = cfg.blockOf(statement);
  const Instruction &instruction = cfg.instruction(statement);
  Variation guard = instruction.guard ? ofOperand(instruction.guard->predicate) : Variation::None;
  return std::max(control[block->number], guard);
}

bool Uniformity::add(RegisterValues::Id value, Variation variation, Shape shape) {
  Shape met = meet(shapes[value], shape);
  bool isNew = variations[value] < variation || met != shapes[value];
  variations[value] = std::max(variations[value], variation);
  shapes[value] = met;
  return isNew;
}

bool Uniformity::update() {
  bool changed = false;
  auto raise = [&](Variation &value, Variation to) {
    if (value < to) {
      value = to;
      changed = true;
    }
  };
  for (auto [from, to] : values.flows())
    changed |= add(to, variations[from], shapes[from]);
  for (const auto &block : cfg.blocks()) {
    for (const CfgBlock *branch : dependence.controllers(*block))
      raise(control[block->number], std::max(control[branch->number], ofBranch(*branch)));
    for (std::uint32_t statement : block->instructions) {
      const Instruction &instruction = cfg.instruction(statement);
      ResultKind kind = resultKindOf(instruction);
      if (kind == ResultKind::None)
        continue;
      Variation execution = ofExecution(statement);
      Variation result = std::max(ofResult(instruction, kind), execution);
      Shape shape = execution == Variation::Threads ? Shape::Other : shapeOfResult(instruction);
      forEachWrittenRegister(instruction, kind, [&](const Operand &each) {
        changed |= add(each.reg, result, shape);
        if (values.of(each) != each.reg)
          changed |= add(values.of(each), result, shape);
      });
      if (instruction.has("cc"))
        raise(carry, result);
    }
  }
  return changed;
}

} // namespace tally::ptx
