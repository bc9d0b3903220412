#include "claims.h"

#include "cas_outcome.h"
#include "congruence.h"
#include "tally/ptx/analysis/opcodes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <optional>
#include <string_view>

namespace tally::ptx {
namespace {

/// The comparand of a claim, and the width in its type: "32" of "b32".
struct Claim {
  std::uint64_t empty = 0;
  std::string_view width;

  bool operator==(const Claim &) const = default;
};

/// Returns the value of an integer, or of a register that only moves of one integer assign.
std::optional<std::uint64_t> constantOf(const Cfg &cfg, const Definitions &whole,
                                        const Operand &operand) {
  if (operand.kind == OperandKind::Integer)
    return operand.bits;
  if (operand.kind != OperandKind::Register || operand.negated)
    return std::nullopt;
  std::optional<std::uint64_t> value;
  for (std::uint32_t statement : whole.of(operand.reg)) {
    const Instruction &mov = cfg.instruction(statement);
    if (mov.opcode != "mov" || mov.operands.size() != 2 ||
        mov.operands[0].kind != OperandKind::Register ||
        mov.operands[1].kind != OperandKind::Integer || mov.operands[1].negated ||
        (value && *value != mov.operands[1].bits))
      return std::nullopt;
    value = mov.operands[1].bits;
  }
  return value;
}

std::optional<Claim> claimOf(const Cfg &cfg, const Definitions &whole, std::uint32_t statement) {
  const Instruction &cas = cfg.instruction(statement);
  std::string_view type = cas.modifiers.empty() ? "" : cas.modifiers.back();
  if (!isPlainCas(cas) || (type != "b32" && type != "b64"))
    return std::nullopt;
  std::optional<std::uint64_t> empty = constantOf(cfg, whole, cas.operands[2]);
  if (!empty)
    return std::nullopt;
  return Claim{type == "b32" ? *empty & 0xffffffff : *empty, type.substr(1)};
}

/// Whether the loop changes the address. A fixed word that no block of the kernel sets back to E is
/// a lock that another kernel opens.
bool moves(const Cfg &cfg, const Loop &loop, const Instruction &cas) {
  Definitions inLoop(cfg, loop);
  bool any = false;
  forEachOperand(cas.operands[1], [&](const Operand &each) {
    any |= each.kind == OperandKind::Register && inLoop.contains(each.reg);
  });
  return any;
}

} // namespace

bool areClaims(const Cfg &cfg, const Definitions &whole, llvm::ArrayRef<LoopReads> loops,
               llvm::ArrayRef<std::uint32_t> writes) {
  std::optional<Claim> common;
  auto isOne = [&](std::uint32_t statement) {
    std::optional<Claim> claim = claimOf(cfg, whole, statement);
    if (!common)
      common = claim;
    return claim && claim == common;
  };
  auto all = [&](llvm::function_ref<bool(const LoopReads &, std::uint32_t)> holds) {
    return llvm::all_of(loops, [&](const LoopReads &each) {
      return llvm::all_of(each.reads, [&](std::uint32_t read) { return holds(each, read); });
    });
  };
  return all([&](const LoopReads &each, std::uint32_t read) {
           return isOne(read) && moves(cfg, each.loop, cfg.instruction(read)) &&
                  leavesWhenExchanged(cfg, each.loop, read, common->empty);
         }) &&
         llvm::all_of(writes, [&](std::uint32_t write) {
           return isOne(write) || all([&](const LoopReads &, std::uint32_t read) {
                    return areApart(cfg, whole, cfg.instruction(write), cfg.instruction(read));
                  });
         });
}

} // namespace tally::ptx
