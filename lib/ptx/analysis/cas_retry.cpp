#include "cas_retry.h"

#include "cas_outcome.h"
#include "shared_writes.h"
#include "tally/ptx/analysis/opcodes.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

namespace tally::ptx {
namespace {

/// Limit on instructions and copies followed back; compilers write no longer chains.
constexpr unsigned maxDepth = 4;

/// Whether equal sources give equal results, and the instruction reads only registers and
/// constants.
bool isArithmetic(const Instruction &instruction) {
  static constexpr std::string_view opcodes[] = {"add", "sub", "mul", "mad", "shl",  "shr",
                                                 "and", "or",  "mov", "cvt", "cvta", "selp"};
  return llvm::is_contained(opcodes, instruction.opcode) && !instruction.guard &&
         instruction.operands.size() >= 2 &&
         instruction.operands[0].kind == OperandKind::Register &&
         instruction.operands[0].component.empty();
}

class CasRetry {
public:
  CasRetry(const Cfg &cfg, const Definitions &whole, const Loop &loop,
           llvm::ArrayRef<std::uint32_t> reads)
      : cfg(cfg), whole(whole), loop(loop), definitions(cfg, loop), reads(reads) {}

  bool recognised() {
    for (std::uint32_t each : reads)
      if (cfg.instruction(each).opcode == "atom") {
        if (cas)
          return false;
        statement = each;
        cas = &cfg.instruction(each);
      }
    if (!cas || !isPlainCas(*cas) || cas->operands[2].kind != OperandKind::Register)
      return false;
    return hasOneAddress() &&
           llvm::all_of(reads,
                        [&](std::uint32_t each) {
                          return each == statement || readsTheWord(cfg.instruction(each));
                        }) &&
           writesNothingElse() && !hasCycleWithout(loop, *cfg.blockOf(statement)) &&
           comparesWithLastSeen() &&
           leavesWhenExchanged(cfg, loop, statement, std::nullopt, registersStored());
  }

private:
  /// Whether in each turn `first`, a statement of the loop, has executed before `second`: it is in
  /// the same block ahead of it, or in the loop's only head.
  bool comesBefore(std::uint32_t first, std::uint32_t second) const {
    const CfgBlock *one = cfg.blockOf(first), *other = cfg.blockOf(second);
    return one == other ? first < second : one == loop.header;
  }

  /// Whether the register operands of `operand` hold the same value in each turn at statement `at`
  /// of the loop: the loop does not assign them, or a single instruction computes them from such
  /// operands.
  bool isSameInEachTurn(const Operand &operand, std::uint32_t at, unsigned depth = 0) const {
    bool same = true;
    forEachOperand(operand, [&](const Operand &each) {
      same &= each.kind != OperandKind::SpecialRegister && each.kind != OperandKind::Opaque;
      if (each.kind != OperandKind::Register || !definitions.contains(each.reg))
        return;
      llvm::ArrayRef<std::uint32_t> assigned = definitions.of(each.reg);
      same = same && assigned.size() == 1 && depth < maxDepth &&
             comesBefore(assigned.front(), at) && isArithmetic(cfg.instruction(assigned.front())) &&
             llvm::all_of(
                 cfg.instruction(assigned.front()).operands.subspan(1),
                 [&](const Operand &source) {
                   return isSameInEachTurn(source, assigned.front(), depth + 1);
                 });
    });
    return same;
  }

  bool hasOneAddress() const {
    return llvm::all_of(
        reads, [&](std::uint32_t each) { return isSameInEachTurn(cas->operands[1], each); });
  }

  /// Whether `load` is a scalar load of the cas's word, with the same width.
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

  using Registers = llvm::SmallVector<RegisterId, 4>; ///< sorted

  /// Returns the registers that hold, behind `block`, the word as this turn's cas or a later load
  /// read it. `seen` are these registers before the block.
  Registers lastSeenBehind(const CfgBlock &block, Registers seen, std::uint32_t until) const {
    for (std::uint32_t each : block.instructions) {
      if (each == until)
        break;
      const Instruction &instruction = cfg.instruction(each);
      RegisterId source = copiedRegister(instruction);
      bool copies = source != noRegister && llvm::is_contained(seen, source);
      bool isRead = llvm::is_contained(reads, each);
      if (each == statement)
        seen.clear(); // a comparand from before the cas is old
      forEachWrittenRegister(instruction,
                             [&](const Operand &written) { llvm::erase(seen, written.reg); });
      if (copies || isRead)
        seen.insert(llvm::lower_bound(seen, instruction.operands[0].reg),
                    instruction.operands[0].reg);
    }
    return seen;
  }

  /// Whether on each path from the cas back to it the comparand becomes the value seen last. A loop
  /// that keeps an old comparand on some path waits there for the word to have that value.
  bool comparesWithLastSeen() const {
    constexpr std::uint32_t toTheEnd = ~std::uint32_t{0};
    llvm::DenseMap<const CfgBlock *, Registers> behind; // only of blocks that some path has reached
    auto before = [&](const CfgBlock &block) {
      std::optional<Registers> common;
      for (const CfgBlock *each : block.predecessors) {
        auto found = behind.find(each);
        if (found == behind.end())
          continue;
        if (!common)
          common = found->second;
        else
          llvm::erase_if(*common,
                         [&](RegisterId reg) { return !llvm::is_contained(found->second, reg); });
      }
      return common;
    };
    const CfgBlock &start = *cfg.blockOf(statement);
    behind[&start] = lastSeenBehind(start, {}, toTheEnd);
    // The sets shrink from round to round.
    for (bool changed = true; changed;) {
      changed = false;
      for (const CfgBlock *block : loop.blocks) {
        std::optional<Registers> seen = block == &start ? std::nullopt : before(*block);
        if (!seen)
          continue;
        Registers now = lastSeenBehind(*block, std::move(*seen), toTheEnd);
        auto [found, isNew] = behind.try_emplace(block, now);
        changed |= isNew || found->second != now;
        found->second = std::move(now);
      }
    }
    std::optional<Registers> seen = before(start);
    return seen && llvm::is_contained(lastSeenBehind(start, std::move(*seen), statement),
                                      cas->operands[2].reg);
  }

  /// Returns the registers that hold the new value, if it is the same in each turn.
  Registers registersStored() const {
    const Operand &value = cas->operands[3];
    if (value.kind != OperandKind::Register || value.negated || !value.component.empty())
      return {};
    RegisterId reg = value.reg;
    Registers stored = {reg};
    llvm::ArrayRef<std::uint32_t> assigned = definitions.of(reg);
    if (!assigned.empty()) {
      RegisterId source = assigned.size() == 1 && comesBefore(assigned.front(), statement)
                              ? movedRegister(cfg.instruction(assigned.front()))
                              : noRegister;
      if (source == noRegister || definitions.contains(source))
        return {};
      stored.push_back(source);
      reg = source;
    }
    for (std::uint32_t copy : whole.of(reg)) // the register is a copy itself
      if (RegisterId source = movedRegister(cfg.instruction(copy)); isCopyInLoop(reg, source))
        stored.push_back(source);
    return stored;
  }

  /// Returns the source register of a plain mov, else noRegister.
  static RegisterId movedRegister(const Instruction &instruction) {
    return instruction.opcode == "mov" ? copiedRegister(instruction) : noRegister;
  }

  /// Whether `reg`, whose only assignment is a mov of `source`, holds the value of `source`
  /// throughout the loop: no path leads from an assignment of `source` to the loop without passing
  /// the mov.
  bool isCopyInLoop(RegisterId reg, RegisterId source) const {
    if (source == noRegister || whole.of(reg).size() != 1 || definitions.contains(source))
      return false;
    std::uint32_t copy = whole.of(reg).front();
    const CfgBlock *copied = cfg.blockOf(copy);
    if (loop.has(*copied))
      return false;
    llvm::SmallVector<const CfgBlock *, 8> open;
    std::vector<bool> visited(cfg.size());
    for (std::uint32_t assigned : whole.of(source)) {
      const CfgBlock *block = cfg.blockOf(assigned);
      if (block != copied)
        open.push_back(block);
      else if (assigned > copy)
        return false;
    }
    while (!open.empty()) {
      const CfgBlock *block = open.pop_back_val();
      if (visited[block->number])
        continue;
      visited[block->number] = true;
      if (loop.has(*block))
        return false;
      for (const CfgBlock *next : block->successors)
        if (next != copied)
          open.push_back(next);
    }
    return true;
  }

  bool writesNothingElse() const {
    return llvm::none_of(loop.blocks, [&](const CfgBlock *block) {
      return llvm::any_of(block->instructions, [&](std::uint32_t each) {
        return each != statement && mayWriteShared(cfg.instruction(each));
      });
    });
  }

  const Cfg &cfg;
  const Definitions &whole;
  const Loop &loop;
  Definitions definitions; ///< in the loop
  llvm::ArrayRef<std::uint32_t> reads;
  std::uint32_t statement = 0;
  const Instruction *cas = nullptr;
};

} // namespace

bool isCasRetry(const Cfg &cfg, const Definitions &whole, const Loop &loop,
                llvm::ArrayRef<std::uint32_t> reads) {
  return CasRetry(cfg, whole, loop, reads).recognised();
}

} // namespace tally::ptx
