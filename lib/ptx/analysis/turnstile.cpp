#include "turnstile.h"

#include "shared_writes.h"
#include "tally/ptx/analysis/opcodes.h"

#include "llvm/ADT/STLExtras.h"

namespace tally::ptx {
namespace {

bool isWord32(std::string_view type) { return type == "u32" || type == "s32" || type == "b32"; }

/// The information that a register of the loop has about the words that were read.
enum class Sense : std::uint8_t {
  Unset,     ///< no assignment seen yet
  Nothing,   ///< the register does not depend on them
  Word,      ///< the register is such a word
  Equal,     ///< predicate, or 1 for 0: true if the word equals the block's id
  Different, ///< true if the word differs from the block's id
  Lost       ///< anything else
};

Sense inverted(Sense sense) {
  return sense == Sense::Equal       ? Sense::Different
         : sense == Sense::Different ? Sense::Equal
                                     : sense;
}

class Turnstile {
public:
  Turnstile(const Cfg &cfg, const Definitions &whole, const Loop &loop,
            llvm::ArrayRef<std::uint32_t> reads)
      : cfg(cfg), whole(whole), inLoop(cfg, loop), loop(loop), reads(reads) {}

  std::optional<unsigned> dimension() {
    if (!onlyReads())
      return std::nullopt;
    do {
      changed = false;
      for (const CfgBlock *block : loop.blocks)
        for (std::uint32_t statement : block->instructions)
          visit(statement);
    } while (changed);
    if (!compared || !leavesOnlyWhenEqual())
      return std::nullopt;
    return compared;
  }

private:
  /// Whether the loop holds only loads (one word each, which other blocks write), arithmetic,
  /// barriers, fences and naps.
  bool onlyReads() const {
    for (const CfgBlock *block : loop.blocks)
      for (std::uint32_t statement : block->instructions) {
        const Instruction &each = cfg.instruction(statement);
        bool isRead = llvm::is_contained(reads, statement);
        if (isRead &&
            (each.opcode != "ld" || each.modifiers.empty() || !isWord32(each.modifiers.back()) ||
             each.operands.size() != 2 || each.operands[0].kind != OperandKind::Register))
          return false;
        ResultKind kind = resultKindOf(each);
        bool harmless = kind == ResultKind::Memory || kind == ResultKind::Pure ||
                        isBlockBarrier(each) || each.opcode == "nanosleep" ||
                        each.opcode == "fence" || each.opcode == "membar" || isTerminator(each);
        if (!harmless || mayWriteShared(each))
          return false;
      }
    return true;
  }

  Sense of(const Operand &operand) const {
    Sense result = Sense::Nothing;
    forEachOperand(operand, [&](const Operand &each) {
      if (each.kind == OperandKind::Register && says(each.reg))
        result = &each == &operand ? senses.lookup(each.reg) : Sense::Lost;
    });
    bool isPredicate = result == Sense::Equal || result == Sense::Different;
    return operand.negated && result != Sense::Nothing
               ? (isPredicate ? inverted(result) : Sense::Lost)
               : result;
  }

  bool says(RegisterId reg) const {
    Sense sense = senses.lookup(reg);
    return sense != Sense::Nothing && sense != Sense::Unset;
  }

  void visit(std::uint32_t statement) {
    const Instruction &instruction = cfg.instruction(statement);
    Sense sense = resultOf(statement, instruction);
    // An instruction that stays Unset depends on no word that was read.
    if (sense == Sense::Unset)
      return;
    forEachWrittenRegister(instruction, [&](const Operand &each) {
      Sense &known = senses.try_emplace(each.reg, Sense::Unset).first->second;
      // A register that may be one thing or another counts as lost: nothing tells which it is when
      // read.
      Sense met = known == Sense::Unset || known == sense ? sense : Sense::Lost;
      changed |= met != known;
      known = met;
    });
  }

  Sense resultOf(std::uint32_t statement, const Instruction &instruction) {
    if (instruction.guard && of(instruction.guard->predicate) != Sense::Nothing)
      return Sense::Lost;
    if (llvm::is_contained(reads, statement))
      return of(instruction.operands[1]) == Sense::Nothing ? Sense::Word : Sense::Lost;
    bool any = false, waiting = false;
    forEachReadRegister(instruction, [&](const Operand &each) {
      any |= says(each.reg);
      waiting |= inLoop.contains(each.reg) && senses.lookup(each.reg) == Sense::Unset;
    });
    if (!any)
      return waiting ? Sense::Unset : Sense::Nothing;
    // A false guard skips the assignment in some threads, which then keep an older outcome.
    if (instruction.guard)
      return Sense::Lost;
    return resultOfOutcome(instruction);
  }

  Sense resultOfOutcome(const Instruction &instruction) {
    llvm::ArrayRef<Operand> operands(instruction.operands.data(), instruction.operands.size());
    if (instruction.opcode == "setp" && operands.size() == 3 &&
        operands[0].kind == OperandKind::Register && instruction.modifiers.size() == 2)
      return resultOfTest(instruction);
    if (instruction.opcode == "mov" && operands.size() == 2)
      return of(operands[1]);
    if (instruction.opcode == "not" && instruction.has("pred"))
      return inverted(outcome(operands[1]));
    if ((instruction.opcode == "and" || instruction.opcode == "or") && instruction.has("pred"))
      return both(of(operands[1]), of(operands[2]));
    if (instruction.opcode == "selp" && operands.size() == 4 &&
        operands[1].kind == OperandKind::Integer && operands[2].kind == OperandKind::Integer)
      return resultOfSelection(instruction);
    if (isBlockBarrier(instruction) && instruction.has("red") && instruction.has("pred") &&
        (instruction.has("and") || instruction.has("or")) && operands.size() >= 3)
      return llvm::all_of(operands.drop_front().drop_back(),
                          [&](const Operand &each) { return of(each) == Sense::Nothing; })
                 ? outcome(operands.back())
                 : Sense::Lost;
    return Sense::Lost;
  }

  /// Returns the operand's sense if it is an outcome of a comparison.
  Sense outcome(const Operand &operand) const {
    Sense sense = of(operand);
    return sense == Sense::Word ? Sense::Lost : sense;
  }

  static Sense both(Sense a, Sense b) {
    if (a == Sense::Word || b == Sense::Word)
      return Sense::Lost;
    if (a == b || b == Sense::Nothing)
      return a;
    return a == Sense::Nothing ? b : Sense::Lost;
  }

  /// Accepts only 1 for set and 0 for not set, or the reverse.
  Sense resultOfSelection(const Instruction &selp) const {
    std::uint64_t set = selp.operands[1].bits, unset = selp.operands[2].bits;
    Sense sense = outcome(selp.operands[3]);
    if (set == 1 && unset == 0)
      return sense;
    return set == 0 && unset == 1 ? inverted(sense) : Sense::Lost;
  }

  Sense resultOfTest(const Instruction &setp) {
    bool equal = setp.modifiers[0] == "eq";
    if ((!equal && setp.modifiers[0] != "ne") || !isWord32(setp.modifiers[1]))
      return Sense::Lost;
    const Operand *first = &setp.operands[1], *second = &setp.operands[2];
    if (of(*first) == Sense::Nothing)
      std::swap(first, second);
    if (of(*second) != Sense::Nothing)
      return Sense::Lost;
    Sense sense = of(*first);
    if (sense == Sense::Word) {
      for (unsigned each = 0; each != 3; ++each)
        if ((!compared || *compared == each) && isBlockIndex(cfg, whole, *second, each)) {
          compared = each;
          return equal ? Sense::Equal : Sense::Different;
        }
      return Sense::Lost;
    }
    // Compares the 0 or 1 of a selection with 0 or 1.
    if (second->kind != OperandKind::Integer || second->bits > 1)
      return Sense::Lost;
    return equal == (second->bits == 1) ? sense : inverted(sense);
  }

  bool leavesOnlyWhenEqual() const {
    return llvm::all_of(loop.blocks, [&](const CfgBlock *block) {
      const Instruction *last = cfg.terminator(*block);
      if (!last)
        return true;
      for (const Operand &operand : last->operands)
        if (of(operand) != Sense::Nothing)
          return false;
      if (!last->guard)
        return true;
      Sense sense = of(last->guard->predicate);
      if (sense == Sense::Nothing)
        return true;
      // Guard::negated is in the predicate operand, so `sense` tells when the branch is taken.
      if (block->successors.size() != 2)
        return false;
      bool takenLeaves = !loop.has(*block->successors[0]);
      bool passedLeaves = !loop.has(*block->successors[1]);
      return takenLeaves != passedLeaves &&
             sense == (takenLeaves ? Sense::Equal : Sense::Different);
    });
  }

  const Cfg &cfg;
  const Definitions &whole;
  Definitions inLoop;
  const Loop &loop;
  llvm::ArrayRef<std::uint32_t> reads;
  llvm::DenseMap<RegisterId, Sense> senses;
  std::optional<unsigned> compared;
  bool changed = false;
};

/// Whether `operand` is 0 or the block's id plus 1, whichever assignment reaches it.
bool isNextOrZero(const Cfg &cfg, const Definitions &whole, const Operand &operand,
                  unsigned dimension, unsigned depth = 0) {
  if (operand.kind == OperandKind::Integer)
    return operand.bits == 0;
  if (operand.kind != OperandKind::Register || operand.negated || depth > 6)
    return false;
  auto follow = [&](const Operand &each) {
    return isNextOrZero(cfg, whole, each, dimension, depth + 1);
  };
  auto isId = [&](const Operand &each) { return isBlockIndex(cfg, whole, each, dimension); };
  auto isOne = [](const Operand &each) {
    return each.kind == OperandKind::Integer && each.bits == 1;
  };
  llvm::ArrayRef<std::uint32_t> assigned = whole.of(operand.reg);
  return !assigned.empty() && llvm::all_of(assigned, [&](std::uint32_t statement) {
    const Instruction &each = cfg.instruction(statement);
    const auto &operands = each.operands;
    // A guarded assignment keeps the value of another one.
    if (each.modifiers.size() != 1 || !isWord32(each.modifiers[0]))
      return false;
    if (each.opcode == "mov" && operands.size() == 2)
      return follow(operands[1]);
    if (each.opcode == "selp" && operands.size() == 4)
      return follow(operands[1]) && follow(operands[2]);
    if (each.opcode == "add" && operands.size() == 3)
      return (isId(operands[1]) && isOne(operands[2])) || (isOne(operands[1]) && isId(operands[2]));
    return false;
  });
}

} // namespace

std::optional<unsigned> turnstileDimension(const Cfg &cfg, const Definitions &whole,
                                           const Loop &loop, llvm::ArrayRef<std::uint32_t> reads) {
  return Turnstile(cfg, whole, loop, reads).dimension();
}

bool passesTurnstile(const Cfg &cfg, const Definitions &whole, const Instruction &write,
                     unsigned dimension) {
  if (write.modifiers.empty() || !isWord32(write.modifiers.back()))
    return false;
  if (write.opcode == "st" && write.operands.size() == 2)
    return isNextOrZero(cfg, whole, write.operands[1], dimension);
  return write.opcode == "atom" && write.has("exch") && write.operands.size() == 3 &&
         isNextOrZero(cfg, whole, write.operands[2], dimension);
}

} // namespace tally::ptx
