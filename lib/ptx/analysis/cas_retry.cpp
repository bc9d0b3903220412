#include "cas_retry.h"

#include "cas_outcome.h"
#include "definitions.h"
#include "shared_writes.h"
#include "tally/ptx/analysis/opcodes.h"

#include "llvm/ADT/STLExtras.h"

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
    if (!cas || !isPlainCas(*cas) || cas->operands[2].kind != OperandKind::Register)
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
           isLastSeen(cas->operands[2].reg) && leavesWhenExchanged(cfg, loop, statement) &&
           writesNothingElse() && !hasCycleWithout(loop, *cfg.blockOf(statement));
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
