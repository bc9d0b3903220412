#include "cas_outcome.h"

#include "definitions.h"
#include "tally/ptx/analysis/opcodes.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

namespace tally::ptx {
namespace {

/// What a predicate says of the exchange. Neither: nothing.
struct Says {
  bool failedIfSet = false, failedIfClear = false;

  Says inverted() const { return {failedIfClear, failedIfSet}; }
};

/// The type's bits, of "u32" or "b64"; 0 for floats, whose equality is not that of bits.
unsigned widthOf(std::string_view type) {
  if (type.size() != 3 || type.front() == 'f')
    return 0;
  return type.ends_with("16") ? 16 : type.ends_with("32") ? 32 : type.ends_with("64") ? 64 : 0;
}

/// Which predicates say, on one way from the cas, whether it failed.
class Tests {
public:
  Tests(const Instruction &cas, std::optional<std::uint64_t> constant)
      : width(widthOf(cas.modifiers.back())), constant(constant), seen{cas.operands[0].reg} {
    if (cas.operands[2].kind == OperandKind::Register)
      expected.push_back(cas.operands[2].reg);
    // The comparand is overwritten by what was there: then nothing can be compared with it.
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
    std::optional<Says> says = instruction.guard ? std::nullopt : saidBy(instruction);
    forEachWrittenRegister(instruction, [&](const Operand &written) {
      llvm::erase(seen, written.reg);
      llvm::erase(expected, written.reg);
      predicates.erase(written.reg);
    });
    if (copiesSeen)
      seen.push_back(instruction.operands[0].reg);
    if (copiesExpected)
      expected.push_back(instruction.operands[0].reg);
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
    if (instruction.opcode == "and")
      return Says{a.failedIfSet || b.failedIfSet, a.failedIfClear && b.failedIfClear};
    if (instruction.opcode == "or")
      return Says{a.failedIfSet && b.failedIfSet, a.failedIfClear || b.failedIfClear};
    return std::nullopt;
  }

  /// Of `setp.eq p, seen, expected` and `setp.ne`.
  std::optional<Says> saidByTest(const Instruction &setp) const {
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
  llvm::SmallVector<RegisterId, 4> seen, expected;
  llvm::DenseMap<RegisterId, Says> predicates;
};

/// Follows every way from the cas until it leaves the loop or is taken only after a failure.
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
      bool failed = decides && (i == 0 ? says.failedIfSet : says.failedIfClear);
      if (!failed && loop.has(next) && (&next == &start || !allEnd(next, tests)))
        return false;
    }
    return true;
  }

private:
  /// Blocks on all ways together; compilers put the test right behind.
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
                         std::optional<std::uint64_t> expected) {
  return Ways(cfg, loop, cas).allEnd(*cfg.blockOf(cas), Tests(cfg.instruction(cas), expected));
}

} // namespace tally::ptx
