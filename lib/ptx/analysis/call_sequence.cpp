#include "tally/ptx/analysis/call_sequence.h"

#include "tally/ptx/analysis/opcodes.h"

#include "llvm/ADT/STLExtras.h"

namespace tally::ptx {
namespace {

/// Returns the `{` of the scope that holds `statement`.
std::uint32_t scopeBegin(const Function &function, std::uint32_t statement) {
  unsigned closed = 0;
  for (std::uint32_t i = statement; i-- > 1;) {
    if (function.body[i].kind == StatementKind::ScopeEnd)
      ++closed;
    else if (function.body[i].kind == StatementKind::ScopeBegin && closed-- == 0)
      return i;
  }
  return 0;
}

/// Returns the variable that `name` means at `statement`, in an open scope of the body, or null.
const Variable *variableAt(const Function &function, std::uint32_t statement,
                           std::string_view name) {
  unsigned closed = 0;
  for (std::uint32_t i = statement; i-- > 1;) {
    const Statement &each = function.body[i];
    if (each.kind == StatementKind::ScopeEnd)
      ++closed;
    else if (each.kind == StatementKind::ScopeBegin && closed != 0)
      --closed;
    else if (closed == 0)
      for (const Variable &variable : each.variables)
        if (variable.name == name)
          return &variable;
  }
  return nullptr;
}

/// Whether a copy of the statement has the same effect.
bool isCopyable(const Statement &statement, bool isTheCall) {
  switch (statement.kind) {
  case StatementKind::Instruction:
    return isTheCall || (statement.instruction.opcode != "call" &&
                         !isTerminator(statement.instruction) && isKnown(statement.instruction));
  case StatementKind::Variable:
    return llvm::all_of(statement.variables, [](const Variable &each) {
      return each.space == StateSpace::Param || each.space == StateSpace::Local;
    });
  case StatementKind::Register:
  case StatementKind::BranchTargets:
  case StatementKind::Prototype:
  case StatementKind::Location:
    return true;
  default:
    return false;
  }
}

bool assigns(const Statement &statement, RegisterId reg) {
  bool found = false;
  for (const RegisterDeclaration &each : statement.registers)
    found |= reg >= each.first && reg - each.first < each.count;
  if (statement.kind == StatementKind::Instruction && statement.instruction.opcode != "call")
    forEachWrittenRegister(statement.instruction,
                           [&](const Operand &each) { found |= each.reg == reg; });
  return found;
}

/// Returns the call's list of arguments, or of results, or null.
const Operand *listOf(const Instruction &call, bool results) {
  bool calleeSeen = false;
  for (const Operand &operand : call.operands) {
    if (operand.kind != OperandKind::List)
      calleeSeen = true;
    else if (calleeSeen != results)
      return &operand;
  }
  return nullptr;
}

} // namespace

std::optional<CallSequence> callSequenceOf(const Function &caller, const FunctionFacts &facts,
                                           const CallSite &call) {
  CallSequence sequence{scopeBegin(caller, call.statement), call.statement};
  if (sequence.begin == 0)
    return std::nullopt;
  while (caller.body[sequence.end].kind != StatementKind::ScopeEnd)
    ++sequence.end;
  for (std::uint32_t i = sequence.begin + 1; i != sequence.end; ++i) {
    const Statement &each = caller.body[i];
    if (!isCopyable(each, i == call.statement) ||
        (call.pointer && assigns(each, call.pointer->reg)))
      return std::nullopt;
  }
  bool readsIds = llvm::any_of(facts.gridUses, [&](const GridUse &use) {
    return use.statement > sequence.begin && use.statement < sequence.end;
  });
  return readsIds ? std::nullopt : std::optional(sequence);
}

bool mayTakeArguments(const Function &callee, const Function &caller, const CallSite &call) {
  const Instruction &instruction = caller.body[call.statement].instruction;
  for (bool results : {false, true}) {
    const std::vector<Variable> &formals = results ? callee.results : callee.parameters;
    const Operand *list = listOf(instruction, results);
    std::size_t count = list ? list->children.size() : 0;
    if (count != formals.size())
      return false;
    for (std::size_t i = 0; i != count; ++i) {
      const Variable *actual = variableAt(caller, call.statement, list->children[i].symbol);
      if (actual && actual->space == StateSpace::Param && formals[i].space == StateSpace::Param &&
          actual->sizeInBytes != formals[i].sizeInBytes)
        return false;
    }
  }
  return true;
}

} // namespace tally::ptx
