#include "variable_writes.h"

#include "tally/ptx/analysis/opcodes.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"

#include <set>
#include <string_view>

namespace tally::ptx {
namespace {

/// Follows addresses of variables through one body.
class Addresses {
public:
  Addresses(ModuleFacts &modules, const Function &function)
      : modules(modules), function(function), facts(modules.of(function)) {}

  bool mayChange() {
    if (facts.ownVariable)
      return true;
    if (llvm::none_of(facts.symbols, [&](std::string_view each) { return isVariable(each); }))
      return false;
    // The result may give a caller the address.
    if (modules.variablesLeadElsewhere() || !function.results.empty())
      return true;
    do {
      isNew = false;
      for (std::uint32_t i = 0; i != function.body.size(); ++i) {
        const Statement &statement = function.body[i];
        if (statement.kind == StatementKind::Instruction && giveAway(statement.instruction, i))
          return true;
      }
    } while (isNew);
    return false;
  }

private:
  /// Matches the name only: a parameter of the same name counts too.
  bool isVariable(std::string_view name) const {
    const Variable *found = modules.variable(name);
    return found && isOfModule(*found);
  }

  bool holdsAddress(const Operand &operand) const {
    bool found = false;
    forEachOperand(operand, [&](const Operand &each) {
      found |= each.kind == OperandKind::Register
                   ? registers.contains(each.reg)
                   : isVariable(each.symbol) || parameters.contains(each.symbol);
    });
    return found;
  }

  /// Records where an address goes. Returns true where the variable is changed, or the address is
  /// lost.
  bool giveAway(const Instruction &instruction, std::uint32_t statement) {
    ResultKind kind = resultKindOf(instruction);
    bool hasResult = kind == ResultKind::Pure || kind == ResultKind::Memory;
    bool reads = false;
    for (std::size_t i = 0; i != instruction.operands.size(); ++i)
      if (i != 0 || !hasResult || instruction.operands[0].kind == OperandKind::Address)
        reads |= holdsAddress(instruction.operands[i]);
    if (!reads)
      return false;
    std::string_view opcode = instruction.opcode;
    if (opcode == "call")
      return !isOfDriver(statement);
    if (opcode == "st" && instruction.has("param"))
      return !enterParameter(instruction.operands[0]);
    if (opcode == "ld" || opcode == "ldu")
      return instruction.has("param");
    if (opcode == "prefetch" || opcode == "prefetchu" || opcode == "applypriority")
      return false;
    if (kind != ResultKind::Pure)
      return true;
    forEachWrittenRegister(instruction, kind, [&](const Operand &each) {
      isNew |= registers.insert(each.reg).second;
    });
    return false;
  }

  /// Records a call's parameter. Returns false where the operand names none.
  bool enterParameter(const Operand &address) {
    if (address.kind != OperandKind::Address || address.children.size() != 1 ||
        address.children[0].kind != OperandKind::Symbol)
      return false;
    isNew |= parameters.insert(address.children[0].symbol).second;
    return true;
  }

  /// Whether the call is of a function that the driver supplies and that only reads its arguments.
  bool isOfDriver(std::uint32_t statement) const {
    for (const CallSite &call : facts.calls)
      if (call.statement == statement && !call.callee.empty()) {
        const Function *callee = modules.moduleOf().function(call.callee);
        return callee && !callee->hasBody &&
               (call.callee == "vprintf" || call.callee == "__assertfail");
      }
    return false;
  }

  ModuleFacts &modules;
  const Function &function;
  const FunctionFacts &facts;
  llvm::DenseSet<RegisterId> registers;  ///< registers that may hold an address of a variable
  std::set<std::string_view> parameters; ///< parameters of calls that may hold such an address
  bool isNew = false;
};

} // namespace

bool mayChangeVariables(ModuleFacts &modules, const Function &function) {
  return Addresses(modules, function).mayChange();
}

} // namespace tally::ptx
