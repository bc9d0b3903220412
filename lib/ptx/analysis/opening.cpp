#include "tally/ptx/analysis/opening.h"

#include "tally/ptx/analysis/opcodes.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"

namespace tally::ptx {
namespace {

/// What a block that leaves has loaded in vain, and computed.
constexpr unsigned maxLoads = 8, maxInstructions = 64;

llvm::StringRef ref(std::string_view text) { return {text.data(), text.size()}; }

bool isPlainArithmetic(std::string_view opcode) {
  return llvm::StringSwitch<bool>(ref(opcode))
      .Cases({"mov", "cvt", "cvta", "add", "sub", "mul", "mad", "mul24", "mad24", "fma", "neg",
              "abs", "min", "max"},
             true)
      .Cases({"and", "or", "xor", "not", "shl", "shr", "shf", "lop3", "bfe", "bfi", "prmt", "setp",
              "selp", "set"},
             true)
      .Default(false);
}

bool isFixedId(const Operand &operand) {
  return llvm::StringSwitch<bool>(ref(specialRegisterName(operand)))
      .Cases({"tid", "ntid", "ctaid", "nctaid", "laneid"}, true)
      .Default(false);
}

/// Of loads: modifiers beside the type that change nothing but where the value is kept.
bool isPlainLoadModifier(std::string_view modifier) {
  return llvm::StringSwitch<bool>(ref(modifier))
             .Cases({"global", "nc", "ca", "cg", "cs", "v2", "v4"}, true)
             .Default(false) ||
         modifier.starts_with("L1::") || modifier.starts_with("L2::");
}

bool isTypeModifier(std::string_view modifier) {
  return modifier.size() >= 2 &&
         std::string_view("subf").find(modifier[0]) != std::string_view::npos &&
         modifier.find_first_not_of("0123456789", 1) == std::string_view::npos;
}

class Admission {
public:
  /// Takes in one more instruction, or refuses it.
  bool admits(const Instruction &instruction) {
    if (++instructions > maxInstructions || readsLoaded(instruction))
      return false;
    if (instruction.opcode == "ld" && instruction.has("global"))
      return admitsLoad(instruction);
    if (instruction.opcode == "ld")
      return isParameterLoad(instruction);
    // The condition code is no register.
    return isPlainArithmetic(instruction.opcode) && !instruction.has("cc") &&
           llvm::all_of(instruction.operands, [](const Operand &each) {
             bool plain = true;
             forEachOperand(each, [&](const Operand &inner) {
               plain &= inner.kind != OperandKind::SpecialRegister || isFixedId(inner);
             });
             return plain;
           });
  }

  unsigned loadsSeen() const { return loads; }

private:
  bool readsLoaded(const Instruction &instruction) const {
    bool found = instruction.guard && loaded.contains(instruction.guard->predicate.reg);
    forEachReadRegister(instruction,
                        [&](const Operand &each) { found |= loaded.contains(each.reg); });
    // A second write would end what the first is waited for.
    forEachWrittenRegister(instruction,
                           [&](const Operand &each) { found |= loaded.contains(each.reg); });
    return found;
  }

  bool admitsLoad(const Instruction &load) {
    if (++loads > maxLoads || !llvm::all_of(load.modifiers, [](std::string_view each) {
          return isPlainLoadModifier(each) || isTypeModifier(each);
        }))
      return false;
    forEachWrittenRegister(load, [&](const Operand &each) { loaded.insert(each.reg); });
    return true;
  }

  static bool isParameterLoad(const Instruction &load) {
    return load.has("param") && load.operands.size() == 2 && !load.operands[1].children.empty() &&
           load.operands[1].children[0].kind == OperandKind::Symbol;
  }

  llvm::DenseSet<RegisterId> loaded;
  unsigned loads = 0, instructions = 0;
};

} // namespace

Opening openingOf(const Function &function) {
  Admission admission;
  Opening opening;
  bool begun = false;
  // Lines and pragmas behind the last instruction that is let in belong to what follows.
  for (std::uint32_t i = 1; i + 1 < function.body.size(); ++i) {
    const Statement &statement = function.body[i];
    switch (statement.kind) {
    case StatementKind::Instruction:
      if (!admission.admits(statement.instruction))
        return opening;
      begun = true;
      opening = {i + 1, admission.loadsSeen()};
      break;
    case StatementKind::Register:
    case StatementKind::Variable:
    case StatementKind::Directive:
      if (!begun)
        opening.end = i + 1;
      break;
    case StatementKind::Location:
    case StatementKind::Pragma:
      break;
    default:
      return opening;
    }
  }
  return opening;
}

} // namespace tally::ptx
