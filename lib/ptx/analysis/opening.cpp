#include "tally/ptx/analysis/opening.h"

#include "string_ref.h"
#include "tally/ptx/analysis/cfg.h"
#include "tally/ptx/analysis/opcodes.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/StringSwitch.h"

#include <algorithm>
#include <map>
#include <vector>

namespace tally::ptx {
namespace {

/// Limits on the work that a block does in vain when it leaves.
constexpr unsigned maxLoads = 8, maxInstructions = 64;
/// The same limits up to the first barrier. There a thread loads its part of a tile and computes
/// the addresses, which takes 1 to 2 us.
constexpr unsigned maxLoadsToBarrier = 64, maxInstructionsToBarrier = 1536;

bool isPlainArithmetic(std::string_view opcode) {
  return llvm::StringSwitch<bool>(ref(opcode))
      .Cases({"mov", "cvt", "cvta", "add", "sub", "mul", "mad", "mul24", "mad24", "fma", "neg",
              "abs", "min", "max"},
             true)
      .Cases({"and", "or", "xor", "not", "shl", "shr", "shf", "lop3", "bfe", "bfi", "prmt", "setp",
              "selp", "set", "div", "rem", "popc", "clz", "brev"},
             true)
      .Default(false);
}

bool isSpecialFunction(std::string_view opcode) {
  return llvm::StringSwitch<bool>(ref(opcode))
      .Cases({"rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2", "tanh"}, true)
      .Default(false);
}

bool isFixedId(const Operand &operand) {
  return llvm::StringSwitch<bool>(ref(specialRegisterName(operand)))
      .Cases({"tid", "ntid", "ctaid", "nctaid", "laneid"}, true)
      .Default(false);
}

/// Whether a load's modifier, besides the type, only selects where the value is cached.
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

/// Whether the operands are registers, parameters, constants, or the thread's and block's ids.
bool isFixed(const Instruction &instruction) {
  // The condition code is no register.
  return !instruction.has("cc") && llvm::all_of(instruction.operands, [](const Operand &each) {
    bool plain = true;
    forEachOperand(each, [&](const Operand &inner) {
      plain &= inner.kind != OperandKind::SpecialRegister || isFixedId(inner);
    });
    return plain;
  });
}

bool isFixedArithmetic(const Instruction &instruction) {
  return isPlainArithmetic(instruction.opcode) && isFixed(instruction);
}

bool isParameterLoad(const Instruction &load) {
  return load.opcode == "ld" && load.has("param") && load.operands.size() == 2 &&
         !load.operands[1].children.empty() &&
         load.operands[1].children[0].kind == OperandKind::Symbol;
}

bool isPlainLoad(const Instruction &load) {
  return load.opcode == "ld" && load.has("global") &&
         llvm::all_of(load.modifiers, [](std::string_view each) {
           return isPlainLoadModifier(each) || isTypeModifier(each);
         });
}

/// Registers that hold loaded values, or values computed from them.
class Loaded {
public:
  bool decides(const Instruction &instruction) const {
    return instruction.guard && contains(instruction.guard->predicate);
  }
  bool isReadBy(const Instruction &instruction) const {
    bool found = decides(instruction);
    forEachReadRegister(instruction, [&](const Operand &each) { found |= contains(each); });
    return found;
  }
  bool isWrittenBy(const Instruction &instruction) const {
    bool found = false;
    forEachWrittenRegister(instruction, [&](const Operand &each) { found |= contains(each); });
    return found;
  }
  /// Whether `operand` names such a register, at any nesting.
  bool isIn(const Operand &operand) const {
    bool found = false;
    forEachOperand(operand, [&](const Operand &each) { found |= contains(each); });
    return found;
  }
  void addResultsOf(const Instruction &instruction) {
    forEachWrittenRegister(instruction, [&](const Operand &each) { registers.insert(each.reg); });
  }
  std::size_t size() const { return registers.size(); }

private:
  bool contains(const Operand &operand) const {
    return operand.kind == OperandKind::Register && registers.contains(operand.reg);
  }

  llvm::DenseSet<RegisterId> registers;
};

bool asksForBlock(const Instruction &instruction) {
  bool found = false;
  for (const Operand &operand : instruction.operands)
    forEachOperand(operand, [&](const Operand &each) {
      found |=
          each.kind == OperandKind::SpecialRegister && specialRegisterName(each).ends_with("ctaid");
    });
  return found;
}

class Admission {
public:
  /// Adds one more instruction, or refuses it.
  bool admits(const Instruction &instruction) {
    // A second write to the register would wait for the load.
    if (++instructions > maxInstructions || loaded.isReadBy(instruction) ||
        loaded.isWrittenBy(instruction))
      return false;
    if (!isPlainLoad(instruction))
      return isParameterLoad(instruction) || isFixedArithmetic(instruction);
    loaded.addResultsOf(instruction);
    return ++loads <= maxLoads;
  }

  unsigned loadsSeen() const { return loads; }

private:
  Loaded loaded;
  unsigned loads = 0, instructions = 0;
};

bool isPlainCopyModifier(std::string_view modifier) {
  return llvm::StringSwitch<bool>(ref(modifier))
             .Cases({"async", "ca", "cg", "shared", "shared::cta", "global", "commit_group",
                     "wait_group", "wait_all"},
                    true)
             .Default(false) ||
         modifier.starts_with("L2::");
}

/// Whether `access` is a plain store to the block's shared memory, or a plain load from it, by a
/// thread or, with ldmatrix, by a warp.
bool isPlainSharedAccess(const Instruction &access, std::string_view opcode) {
  return access.opcode == opcode && access.operands.size() == 2 &&
         (access.has("shared") || access.has("shared::cta")) &&
         llvm::all_of(access.modifiers, [](std::string_view each) {
           return llvm::StringSwitch<bool>(ref(each))
                      .Cases({"shared", "shared::cta", "v2", "v4"}, true)
                      .Cases({"sync", "aligned", "m8n8", "x1", "x2", "x4", "trans"}, true)
                      .Default(false) ||
                  isTypeModifier(each);
         });
}

/// Whether all the block's threads meet at `instruction`, and it does nothing else. (A barrier id
/// in a register may differ between them.)
bool isPlainMeeting(const Instruction &instruction) {
  return isBlockBarrier(instruction) && !instruction.guard && instruction.has("sync") &&
         barrierFormOf(instruction) == BarrierForm::Full &&
         barrierIdOf(instruction).kind == OperandKind::Integer;
}

/// The instructions admitted before the first barrier, in the order of the text.
class AdmissionToBarrier {
public:
  bool admits(const Instruction &instruction) {
    if (++instructions > maxInstructionsToBarrier || loaded.decides(instruction))
      return false;
    if (instruction.opcode == "bra")
      return admitsBranch(instruction);
    if (instruction.opcode == "cp")
      return admitsCopy(instruction);
    if (isPlainSharedAccess(instruction, "st"))
      return !loaded.isIn(instruction.operands[0]);
    if (isPlainLoad(instruction))
      return ++loads <= maxLoadsToBarrier && admitsLoad(instruction);
    if (!isParameterLoad(instruction) && !isFixedArithmetic(instruction))
      return false;
    if (loaded.isReadBy(instruction))
      loaded.addResultsOf(instruction);
    return true;
  }
  /// Admits an instruction behind the barrier, where no new copy or store may begin.
  bool admitsBehind(const Instruction &instruction) {
    if (isPlainSharedAccess(instruction, "ld") || isPlainSharedAccess(instruction, "ldmatrix"))
      return ++instructions <= maxInstructionsToBarrier && !loaded.decides(instruction) &&
             admitsLoad(instruction);
    return (isParameterLoad(instruction) || isFixedArithmetic(instruction)) && admits(instruction);
  }

  /// Notes a label. Branches may go only forward, so no instruction here runs twice.
  void see(std::string_view label) {
    seen.insert(ref(label));
    awaited.erase(ref(label));
  }
  bool hasSeen(std::string_view label) const { return seen.contains(ref(label)); }
  /// Whether every path so far continues here.
  bool allWaysMeet() const { return awaited.empty(); }
  bool copiesSeen() const { return copies; }

private:
  bool admitsLoad(const Instruction &load) {
    if (loaded.isIn(load.operands[1]))
      return false;
    loaded.addResultsOf(load);
    return true;
  }

  bool admitsBranch(const Instruction &branch) {
    if (branch.operands.size() != 1 || branch.operands[0].kind != OperandKind::Symbol ||
        hasSeen(branch.operands[0].symbol))
      return false;
    awaited.insert(ref(branch.operands[0].symbol));
    return true;
  }

  bool admitsCopy(const Instruction &copy) {
    copies = true;
    return copy.has("async") && llvm::all_of(copy.modifiers, isPlainCopyModifier) &&
           (copy.operands.size() < 2 || ++loads <= maxLoadsToBarrier) && !loaded.isReadBy(copy);
  }

  Loaded loaded;
  llvm::StringSet<> seen, awaited;
  unsigned loads = 0, instructions = 0;
  bool copies = false;
};

/// Finds the end of a prelude.
class PreludeSearch {
public:
  explicit PreludeSearch(const Function &function) : function(function), crossed(placesCrossed()) {}

  std::optional<Prelude> run() {
    std::uint32_t end = placeBefore(firstNotAdmitted());
    for (unsigned tries = 0; end > 1 && tries != maxTries; ++tries) {
      std::uint32_t broken = firstLedByData(end);
      if (broken == end)
        return Prelude{end, goesRound(end)};
      end = placeBefore(broken);
    }
    return std::nullopt;
  }

private:
  /// Calls `visit` with the index of each label that `statement` names. A name that several scopes
  /// declare stands for all of these labels.
  template <class Visit> void forEachTarget(const Statement &statement, Visit &&visit) const {
    auto visitName = [&](std::string_view name) {
      auto [begin, end] = labels.equal_range(name);
      for (auto each = begin; each != end; ++each)
        visit(each->second);
    };
    for (std::string_view name : statement.names)
      visitName(name);
    for (const Operand &operand : statement.instruction.operands)
      if (operand.kind == OperandKind::Symbol)
        visitName(operand.symbol);
  }

  /// Returns, by statement index, whether a branch crosses the place before the statement.
  std::vector<bool> placesCrossed() {
    for (std::uint32_t i = 0; i != function.body.size(); ++i)
      if (function.body[i].kind == StatementKind::Label)
        labels.emplace(function.body[i].label, i);
    std::vector<int> begins(function.body.size() + 1);
    for (std::uint32_t i = 0; i != function.body.size(); ++i)
      forEachTarget(function.body[i], [&](std::uint32_t label) {
        ++begins[std::min(i, label) + 1];
        --begins[std::max(i, label) + 1];
      });
    std::vector<bool> result;
    for (int open = 0; int change : begins)
      result.push_back((open += change) != 0);
    return result;
  }

  bool isAdmitted(const Statement &statement) const {
    const Instruction &instruction = statement.instruction;
    switch (statement.kind) {
    case StatementKind::Instruction:
      if (instruction.opcode == "bra")
        return instruction.operands.size() == 1 &&
               instruction.operands[0].kind == OperandKind::Symbol;
      return isPlainLoad(instruction) || isParameterLoad(instruction) ||
             isFixedArithmetic(instruction) ||
             (isSpecialFunction(instruction.opcode) && isFixed(instruction));
    case StatementKind::Label:
    case StatementKind::Register:
    case StatementKind::Variable:
    case StatementKind::Directive:
    case StatementKind::Location:
    case StatementKind::Pragma:
      return true;
    default:
      return false;
    }
  }

  std::uint32_t firstNotAdmitted() const {
    std::uint32_t i = 1;
    while (i + 1 < function.body.size() && isAdmitted(function.body[i]))
      ++i;
    return i;
  }

  /// Returns the last place up to `limit` that all threads reach exactly once, or 1. A .loc or
  /// .pragma belongs to the statement behind it.
  std::uint32_t placeBefore(std::uint32_t limit) const {
    auto isBehind = [&](StatementKind kind) {
      return kind != StatementKind::Location && kind != StatementKind::Pragma;
    };
    while (limit > 1 && (crossed[limit] || !isBehind(function.body[limit - 1].kind)))
      --limit;
    return limit;
  }

  /// Returns the first statement before `end` that loaded values control, except by its result; or
  /// `end`. Returns 1 where the search takes too long.
  std::uint32_t firstLedByData(std::uint32_t end) const {
    // In a loop, later statements execute before the first ones of the next turn.
    Loaded loaded;
    std::size_t known;
    unsigned tries = 0;
    do {
      if (tries++ == maxTries)
        return 1;
      known = loaded.size();
      for (std::uint32_t i = 1; i != end; ++i)
        if (const Instruction &instruction = function.body[i].instruction;
            function.body[i].kind == StatementKind::Instruction &&
            (isPlainLoad(instruction) || loaded.isReadBy(instruction)))
          loaded.addResultsOf(instruction);
    } while (loaded.size() != known);
    for (std::uint32_t i = 1; i != end; ++i)
      if (const Instruction &instruction = function.body[i].instruction;
          function.body[i].kind == StatementKind::Instruction &&
          (instruction.opcode == "bra" || isPlainLoad(instruction)) && loaded.isReadBy(instruction))
        return i;
    return end;
  }

  bool goesRound(std::uint32_t end) const {
    bool found = false;
    for (std::uint32_t i = 1; i != end; ++i)
      forEachTarget(function.body[i], [&](std::uint32_t label) { found |= label < i; });
    return found;
  }

  /// Keeps the time linear in the text.
  static constexpr unsigned maxTries = 8;

  const Function &function;
  std::multimap<std::string_view, std::uint32_t> labels;
  std::vector<bool> crossed;
};

/// Whether a statement from `begin` on branches back to a label that `seen` has.
bool goesBack(const Function &function, std::uint32_t begin, const AdmissionToBarrier &seen) {
  return std::any_of(
      function.body.begin() + begin, function.body.end(), [&](const Statement &each) {
        bool found =
            llvm::any_of(each.names, [&](std::string_view name) { return seen.hasSeen(name); });
        for (const Operand &operand : each.instruction.operands)
          found |= operand.kind == OperandKind::Symbol && seen.hasSeen(operand.symbol);
        return found;
      });
}

} // namespace

Opening openingOf(const Function &function, bool mayAskForBlock) {
  Admission admission;
  Opening opening;
  bool begun = false;
  // A .loc or .pragma behind the last admitted instruction belongs to the following statement.
  for (std::uint32_t i = 1; i + 1 < function.body.size(); ++i) {
    const Statement &statement = function.body[i];
    switch (statement.kind) {
    case StatementKind::Instruction:
      if ((!mayAskForBlock && asksForBlock(statement.instruction)) ||
          !admission.admits(statement.instruction))
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

std::optional<OwnBarrier> ownBarrierOf(const Function &function) {
  AdmissionToBarrier admission;
  OwnBarrier result;
  for (std::uint32_t i = 1; i + 1 < function.body.size(); ++i) {
    const Statement &statement = function.body[i];
    switch (statement.kind) {
    case StatementKind::Instruction:
      if (isPlainMeeting(statement.instruction) && admission.allWaysMeet()) {
        if (goesBack(function, i + 1, admission))
          return std::nullopt;
        result.barrier = i;
        result.copies = admission.copiesSeen();
        for (result.leave = i + 1; result.leave + 1 < function.body.size(); ++result.leave)
          if (const Statement &behind = function.body[result.leave];
              behind.kind != StatementKind::Instruction ||
              !admission.admitsBehind(behind.instruction))
            break;
        return result;
      }
      if (!admission.admits(statement.instruction))
        return std::nullopt;
      result.end = i + 1;
      break;
    case StatementKind::Label:
      admission.see(statement.label);
      result.end = i + 1;
      break;
    case StatementKind::Register:
    case StatementKind::Variable:
    case StatementKind::Directive:
      result.end = i + 1;
      break;
    case StatementKind::Location:
    case StatementKind::Pragma:
      break;
    default:
      return std::nullopt;
    }
  }
  return std::nullopt;
}

std::optional<Prelude> preludeOf(const Function &function) {
  std::optional<Prelude> prelude = PreludeSearch(function).run();
  if (prelude && prelude->loops && !everyLoopHasOneHead(Cfg(function)))
    return std::nullopt;
  return prelude;
}

} // namespace tally::ptx
