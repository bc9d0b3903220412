#include "cas_outcome.h"

#include "definitions.h"
#include "tally/ptx/analysis/opcodes.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

namespace tally::ptx {
namespace {

/// The information that a predicate has about the exchange. goesOnIfSet: the predicate is set only
/// if the exchange failed or the value found differs from the value to store. goesOnIfClear:
/// likewise for clear. With neither flag the predicate has no information.
struct Says {
  bool goesOnIfSet = false, goesOnIfClear = false;
  bool byNan = false; ///< always true for a new value that is a NaN

  Says inverted() const { return {goesOnIfClear, goesOnIfSet, byNan}; }
};

/// Whether no value, NaNs aside, compares with itself in this way.
bool isIrreflexive(std::string_view comparison) {
  return llvm::is_contained({"lt", "gt", "ne", "lo", "hi", "ltu", "gtu", "neu"}, comparison);
}
bool isReflexive(std::string_view comparison) {
  return llvm::is_contained({"eq", "le", "ge", "ls", "hs", "equ", "leu", "geu"}, comparison);
}

/// Returns the bits of a type such as "u32" or "b64"; 0 for floats, whose equality is not bit
/// equality.
unsigned widthOf(std::string_view type) {
  if (type.size() != 3 || type.front() == 'f')
    return 0;
  return type.ends_with("16") ? 16 : type.ends_with("32") ? 32 : type.ends_with("64") ? 64 : 0;
}

/// Tracks, on one path from the cas, the predicates that tell whether it failed.
class Tests {
public:
  Tests(const Instruction &cas, std::optional<std::uint64_t> constant,
        llvm::ArrayRef<RegisterId> stored, bool hasOneWayOut)
      : width(widthOf(cas.modifiers.back())), constant(constant), hasOneWayOut(hasOneWayOut),
        seen{cas.operands[0].reg}, stored(stored.begin(), stored.end()) {
    if (cas.operands[2].kind == OperandKind::Register)
      expected.push_back(cas.operands[2].reg);
    // The result overwrites the comparand: then no test can compare with it.
    llvm::erase(expected, cas.operands[0].reg);
  }

  Says of(const Operand &predicate) const {
    if (predicate.kind != OperandKind::Register)
      return {};
    Says says = predicates.lookup(predicate.reg);
    return predicate.negated ? says.inverted() : says;
  }

  void pass(const Instruction &instruction) {
    RegisterId source = copiedRegister(instruction);
    bool copiesSeen = source != noRegister && llvm::is_contained(seen, source);
    bool copiesExpected = source != noRegister && llvm::is_contained(expected, source);
    bool copiesStored = source != noRegister && llvm::is_contained(stored, source);
    std::optional<Says> says = instruction.guard ? std::nullopt : saidBy(instruction);
    forEachWrittenRegister(instruction, [&](const Operand &written) {
      llvm::erase(seen, written.reg);
      llvm::erase(expected, written.reg);
      llvm::erase(stored, written.reg);
      predicates.erase(written.reg);
    });
    if (copiesSeen)
      seen.push_back(instruction.operands[0].reg);
    if (copiesExpected)
      expected.push_back(instruction.operands[0].reg);
    if (copiesStored)
      stored.push_back(instruction.operands[0].reg);
    if (says)
      predicates[instruction.operands[0].reg] = *says;
  }

private:
  std::optional<Says> saidBy(const Instruction &instruction) const {
    const auto &operands = instruction.operands;
    if (operands.size() < 2 || operands[0].kind != OperandKind::Register)
      return std::nullopt;
    if (instruction.opcode == "setp")
      return saidByTest(instruction);
    if (instruction.modifiers.size() != 1 || !instruction.has("pred"))
      return std::nullopt;
    if (instruction.opcode == "not" && operands.size() == 2)
      return of(operands[1]).inverted();
    if (operands.size() != 3)
      return std::nullopt;
    Says a = of(operands[1]), b = of(operands[2]);
    if (a.byNan || b.byNan) // in a combination, the exit may be taken for a NaN too
      return std::nullopt;
    if (instruction.opcode == "and")
      return Says{a.goesOnIfSet || b.goesOnIfSet, a.goesOnIfClear && b.goesOnIfClear};
    if (instruction.opcode == "or")
      return Says{a.goesOnIfSet && b.goesOnIfSet, a.goesOnIfClear || b.goesOnIfClear};
    return std::nullopt;
  }

  std::optional<Says> saidByTest(const Instruction &setp) const {
    std::optional<Says> says = saidOfSuccess(setp);
    return says ? says : saidOfStored(setp);
  }

  /// For a comparison of the value found with the stored value. A NaN is unordered with every
  /// value, so for a NaN the comparisons with `u` are true and the others false, whatever value was
  /// found.
  std::optional<Says> saidOfStored(const Instruction &setp) const {
    const auto &operands = setp.operands;
    bool flushes = setp.modifiers.size() == 3 && setp.modifiers[1] == "ftz";
    if (operands.size() != 3 || width == 0 || (setp.modifiers.size() != 2 && !flushes))
      return std::nullopt;
    std::string_view comparison = setp.modifiers[0], type = setp.modifiers.back();
    bool isFloat = type == (width == 32 ? "f32" : "f64");
    if ((!isFloat && widthOf(type) != width) || (isFloat && width == 16))
      return std::nullopt;
    auto pair = [&](const Operand &a, const Operand &b) { return isSeen(a) && isStored(b); };
    if (!pair(operands[1], operands[2]) && !pair(operands[2], operands[1]))
      return std::nullopt;
    Says says{isIrreflexive(comparison), isReflexive(comparison)};
    says.byNan = isFloat && says.goesOnIfSet == comparison.ends_with('u');
    if (says.byNan && !hasOneWayOut)
      return std::nullopt;
    return says;
  }

  bool isStored(const Operand &operand) const {
    return operand.kind == OperandKind::Register && !operand.negated && operand.component.empty() &&
           llvm::is_contained(stored, operand.reg);
  }

  /// For `setp.eq p, seen, expected` and `setp.ne`.
  std::optional<Says> saidOfSuccess(const Instruction &setp) const {
    const auto &operands = setp.operands;
    if (setp.modifiers.size() != 2 || operands.size() != 3 || width == 0 ||
        widthOf(setp.modifiers[1]) != width)
      return std::nullopt;
    auto pair = [&](const Operand &a, const Operand &b) { return isSeen(a) && isExpected(b); };
    if (!pair(operands[1], operands[2]) && !pair(operands[2], operands[1]))
      return std::nullopt;
    if (setp.modifiers[0] == "eq")
      return Says{false, true};
    return setp.modifiers[0] == "ne" ? std::optional(Says{true, false}) : std::nullopt;
  }

  bool isSeen(const Operand &operand) const {
    return operand.kind == OperandKind::Register && !operand.negated &&
           llvm::is_contained(seen, operand.reg);
  }

  bool isExpected(const Operand &operand) const {
    if (operand.kind == OperandKind::Integer)
      return constant && (operand.bits ^ *constant) << (64 - width) == 0;
    return operand.kind == OperandKind::Register && !operand.negated &&
           llvm::is_contained(expected, operand.reg);
  }

  unsigned width;
  std::optional<std::uint64_t> constant;
  bool hasOneWayOut;
  llvm::SmallVector<RegisterId, 4> seen, expected, stored;
  llvm::DenseMap<RegisterId, Says> predicates;
};

/// Follows every path from the cas until it leaves the loop or reaches a branch that may stay.
class Ways {
public:
  Ways(const Cfg &cfg, const Loop &loop, std::uint32_t cas)
      : cfg(cfg), loop(loop), cas(cas), start(*cfg.blockOf(cas)) {}

  bool allEnd(const CfgBlock &block, Tests tests) {
    if (++followed > mostFollowed)
      return false;
    for (std::uint32_t each : block.instructions)
      if (&block != &start || each > cas)
        tests.pass(cfg.instruction(each));
    const Instruction *last = cfg.terminator(block);
    bool decides = last && last->guard && block.successors.size() == 2;
    Says says = decides ? tests.of(last->guard->predicate) : Says{};
    for (std::size_t i = 0; i != block.successors.size(); ++i) {
      const CfgBlock &next = *block.successors[i];
      bool mayStay = decides && (i == 0 ? says.goesOnIfSet : says.goesOnIfClear);
      if (!mayStay && loop.has(next) && (&next == &start || !allEnd(next, tests)))
        return false;
    }
    return true;
  }

private:
  /// Limit on blocks of all paths together; compilers put the test right behind the cas.
  static constexpr unsigned mostFollowed = 32;

  const Cfg &cfg;
  const Loop &loop;
  std::uint32_t cas;
  const CfgBlock &start;
  unsigned followed = 0;
};

} // namespace

bool isPlainCas(const Instruction &instruction) {
  return instruction.opcode == "atom" && instruction.has("cas") && !instruction.guard &&
         instruction.operands.size() == 4 &&
         instruction.operands[0].kind == OperandKind::Register &&
         instruction.operands[1].kind == OperandKind::Address;
}

bool leavesWhenExchanged(const Cfg &cfg, const Loop &loop, std::uint32_t cas,
                         std::optional<std::uint64_t> expected, llvm::ArrayRef<RegisterId> stored) {
  auto leaves = [&](const CfgBlock *block) {
    return !llvm::all_of(block->successors, [&](const CfgBlock *next) { return loop.has(*next); });
  };
  bool hasOneWayOut = llvm::count_if(loop.blocks, leaves) == 1;
  return Ways(cfg, loop, cas)
      .allEnd(*cfg.blockOf(cas), Tests(cfg.instruction(cas), expected, stored, hasOneWayOut));
}

} // namespace tally::ptx
