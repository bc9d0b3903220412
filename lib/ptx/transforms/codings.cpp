#include "codings.h"

#include "tally/ptx/analysis/liveness.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

namespace tally::ptx {
namespace {

/// Returns the move that sets a register of this declaration to 0; empty if there is none.
std::string_view moveFor(const RegisterDeclaration &declaration) {
  std::string_view type = declaration.type;
  if (declaration.vectorWidth != 1)
    return {};
  if (type == "pred")
    return "mov.pred";
  if (type.ends_with("128") || type.ends_with("x2"))
    return {};
  if (type.ends_with("16"))
    return "mov.b16";
  if (type.ends_with("32"))
    return "mov.b32";
  return type.ends_with("64") ? "mov.b64" : std::string_view();
}

/// Every register below the returned id is declared by the declarations that open the body, or is a
/// parameter of the function.
RegisterId endOfOpening(const Function &function) {
  RegisterId end = 0;
  for (std::size_t i = 1; i != function.body.size(); ++i) {
    StatementKind kind = function.body[i].kind;
    if (kind == StatementKind::Instruction || kind == StatementKind::Label ||
        kind == StatementKind::ScopeBegin || kind == StatementKind::Location)
      break;
    for (const RegisterDeclaration &each : function.body[i].registers)
      end = each.first + each.count;
  }
  return end;
}

} // namespace

std::string registerName(const RegisterDeclaration &declaration, RegisterId reg) {
  std::string name(declaration.name);
  return declaration.isRange ? name + std::to_string(reg - declaration.first) : name;
}

std::vector<RegisterId> undefinedAtBodyStart(const Function &function) {
  Cfg cfg(function);
  std::vector<RegisterId> registers = Liveness(cfg).liveIn(cfg.front());
  const RegisterId end = endOfOpening(function);
  llvm::erase_if(registers, [&](RegisterId reg) {
    return reg >= end || moveFor(function.declarationOf(reg)).empty();
  });
  return registers;
}

std::string zero(const Function &function, const std::vector<RegisterId> &registers) {
  std::string text;
  for (RegisterId reg : registers) {
    const RegisterDeclaration &declaration = function.declarationOf(reg);
    if (std::string_view move = moveFor(declaration); !move.empty())
      text += fmt::format("{} {}, 0;\n\t", move, registerName(declaration, reg));
  }
  return text;
}

std::vector<std::uint32_t> pointerLoads(const Function &function) {
  std::vector<std::uint32_t> loads;
  for (std::uint32_t i = 0; i != function.body.size(); ++i) {
    const Statement &statement = function.body[i];
    const Instruction &instruction = statement.instruction;
    if (statement.kind != StatementKind::Instruction || instruction.opcode != "ld" ||
        instruction.guard || instruction.modifiers.size() != 2 ||
        instruction.modifiers[0] != "param" || !instruction.modifiers[1].ends_with("64") ||
        instruction.modifiers[1].starts_with("f") || instruction.operands.size() != 2 ||
        instruction.operands[0].kind != OperandKind::Register ||
        !instruction.operands[0].component.empty() || instruction.operands[1].children.empty())
      continue;
    const Operand &base = instruction.operands[1].children[0];
    if (base.kind == OperandKind::Symbol &&
        llvm::any_of(function.parameters,
                     [&](const Variable &each) { return each.name == base.symbol; }))
      loads.push_back(i);
  }
  return loads;
}

void makeOpaque(FunctionEditor &editor, const Function &function,
                const std::vector<std::uint32_t> &loads, const std::string &zeroIndex) {
  for (std::uint32_t load : loads) {
    const Statement &statement = function.body[load];
    std::string_view pointer = statement.instruction.operands[0].text;
    editor.replace(statement.text, fmt::format("{}\n\t{}shr.u32 %tally_r0, %tally_r0, 31;\n"
                                               "\tcvt.u64.u32 %tally_d0, %tally_r0;\n"
                                               "\tadd.s64 {}, {}, %tally_d0;",
                                               statement.text, zeroIndex, pointer, pointer));
  }
}

} // namespace tally::ptx
