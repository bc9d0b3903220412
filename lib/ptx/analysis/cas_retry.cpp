#include "cas_retry.h"

#include "definitions.h"
#include "shared_writes.h"
#include "tally/ptx/analysis/opcodes.h"

#include "llvm/ADT/STLExtras.h"

#include <optional>

namespace tally::ptx {
namespace {

class CasRetry {
public:
  CasRetry(const Cfg &cfg, const Loop &loop, llvm::ArrayRef<std::uint32_t> reads)
      : cfg(cfg), loop(loop), definitions(cfg, loop), reads(reads) {}

  bool recognised() {
    for (std::uint32_t each : reads)
      if (cfg.instruction(each).opcode == "atom") {
        if (cas)
          return false;
        statement = each;
        cas = &cfg.instruction(each);
      }
    if (!cas || !cas->has("cas") || cas->guard || cas->operands.size() != 4 ||
        cas->operands[0].kind != OperandKind::Register ||
        cas->operands[1].kind != OperandKind::Address ||
        cas->operands[2].kind != OperandKind::Register)
      return false;
    bool fixedAddress = true;
    forEachOperand(cas->operands[1], [&](const Operand &each) {
      fixedAddress &= each.kind != OperandKind::Register || !definitions.contains(each.reg);
    });
    return fixedAddress &&
           llvm::all_of(reads,
                        [&](std::uint32_t each) {
                          return each == statement || readsTheWord(cfg.instruction(each));
                        }) &&
           isLastSeen(cas->operands[2].reg) && leavesOnSuccess() && writesNothingElse() &&
           !hasCycleWithout(loop, *cfg.blockOf(statement));
  }

private:
  /// A scalar load of the word that the cas is on, as wide as it.
  bool readsTheWord(const Instruction &load) const {
    if (load.opcode != "ld" || load.guard || load.operands.size() != 2 ||
        load.operands[0].kind != OperandKind::Register ||
        load.operands[1].kind != OperandKind::Address || load.modifiers.empty() ||
        load.modifiers.back().substr(1) != cas->modifiers.back().substr(1))
      return false;
    const Operand &one = load.operands[1], &other = cas->operands[1];
    return one.children.size() == 1 && other.children.size() == 1 && one.bits == other.bits &&
           one.children[0].kind == OperandKind::Register &&
           other.children[0].kind == OperandKind::Register &&
           one.children[0].reg == other.children[0].reg;
  }

  /// Whether every assignment of `reg` in the loop copies what was read of the word.
  bool isLastSeen(RegisterId reg, unsigned depth = 0) const {
    if (reg == cas->operands[0].reg)
      return true;
    llvm::ArrayRef<std::uint32_t> assigned = definitions.of(reg);
    if (depth > 4 || assigned.empty())
      return false;
    return llvm::all_of(assigned, [&](std::uint32_t each) {
      const Instruction &instruction = cfg.instruction(each);
      if (llvm::is_contained(reads, each) && instruction.opcode == "ld")
        return true;
      RegisterId source = copiedRegister(instruction);
      return source != noRegister && isLastSeen(source, depth + 1);
    });
  }

  bool writesNothingElse() const {
    return llvm::none_of(loop.blocks, [&](const CfgBlock *block) {
      return llvm::any_of(block->instructions, [&](std::uint32_t each) {
        return each != statement && mayWriteShared(cfg.instruction(each));
      });
    });
  }

  /// The cas's block and those that always follow it, one after the other.
  llvm::SmallVector<const CfgBlock *, 4> blocksAfterCas() const {
    llvm::SmallVector<const CfgBlock *, 4> blocks = {cfg.blockOf(statement)};
    while (blocks.back()->successors.size() == 1) {
      const CfgBlock *next = blocks.back()->successors[0];
      if (!loop.has(*next) || next->predecessors.size() != 1 || llvm::is_contained(blocks, next))
        break;
      blocks.push_back(next);
    }
    return blocks;
  }

  /// After the cas, before anything else decides, what it returned is compared with the comparand,
  /// and the loop is left when they are equal.
  bool leavesOnSuccess() const {
    auto blocks = blocksAfterCas();
    const Instruction *last = cfg.terminator(*blocks.back());
    if (!last || !last->guard || blocks.back()->successors.size() != 2)
      return false;
    Tests tests(cas->operands[0].reg, cas->operands[2].reg);
    for (const CfgBlock *block : blocks)
      for (std::uint32_t each : block->instructions)
        if (block != blocks.front() || each > statement)
          tests.pass(cfg.instruction(each));
    std::optional<bool> testsEqual = tests.of(last->guard->predicate.reg);
    if (!testsEqual)
      return false;
    bool takenWhenEqual = *testsEqual != last->guard->predicate.negated;
    return !loop.has(*blocks.back()->successors[takenWhenEqual ? 0 : 1]);
  }

  /// Which predicates say, on a straight way from the cas, whether it succeeded.
  class Tests {
  public:
    Tests(RegisterId seen, RegisterId expected) : seen{seen}, expected{expected} {}

    /// True: set when equal. False: set when different. None: says nothing.
    std::optional<bool> of(RegisterId predicate) const {
      auto found = predicates.find(predicate);
      return found == predicates.end() ? std::nullopt : std::optional(found->second);
    }

    void pass(const Instruction &instruction) {
      RegisterId source = copiedRegister(instruction);
      bool copiesSeen = source != noRegister && llvm::is_contained(seen, source);
      bool copiesExpected = source != noRegister && llvm::is_contained(expected, source);
      std::optional<bool> test = equalityTest(instruction);
      if (instruction.opcode == "not" && !instruction.guard && instruction.has("pred") &&
          instruction.operands.size() == 2)
        if (auto inner = of(instruction.operands[1].reg))
          test = !*inner;
      forEachWrittenRegister(instruction, [&](const Operand &written) {
        llvm::erase(seen, written.reg);
        llvm::erase(expected, written.reg);
        predicates.erase(written.reg);
      });
      if (copiesSeen)
        seen.push_back(instruction.operands[0].reg);
      if (copiesExpected)
        expected.push_back(instruction.operands[0].reg);
      if (test)
        predicates[instruction.operands[0].reg] = *test;
    }

  private:
    /// True for `setp.eq p, seen, expected`, false for `setp.ne`, none for anything else.
    std::optional<bool> equalityTest(const Instruction &instruction) const {
      const auto &operands = instruction.operands;
      if (instruction.opcode != "setp" || instruction.guard || instruction.modifiers.size() != 2 ||
          operands.size() != 3 || operands[0].kind != OperandKind::Register ||
          operands[1].kind != OperandKind::Register || operands[2].kind != OperandKind::Register)
        return std::nullopt;
      auto pair = [&](const Operand &a, const Operand &b) {
        return llvm::is_contained(seen, a.reg) && llvm::is_contained(expected, b.reg);
      };
      // Equal bits, not equal floats: -0.0 == 0.0 says nothing of the exchange.
      if (!(pair(operands[1], operands[2]) || pair(operands[2], operands[1])) ||
          instruction.modifiers[1].starts_with("f"))
        return std::nullopt;
      if (instruction.modifiers[0] == "eq")
        return true;
      return instruction.modifiers[0] == "ne" ? std::optional(false) : std::nullopt;
    }

    llvm::SmallVector<RegisterId, 4> seen, expected;
    llvm::DenseMap<RegisterId, bool> predicates;
  };

  const Cfg &cfg;
  const Loop &loop;
  Definitions definitions;
  llvm::ArrayRef<std::uint32_t> reads;
  std::uint32_t statement = 0;
  const Instruction *cas = nullptr;
};

} // namespace

bool isCasRetry(const Cfg &cfg, const Loop &loop, llvm::ArrayRef<std::uint32_t> reads) {
  return CasRetry(cfg, loop, reads).recognised();
}

} // namespace tally::ptx
