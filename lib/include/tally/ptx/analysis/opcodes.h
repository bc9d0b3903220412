// The opcode facts of the analyses (PTX ISA 9.0, chapter 9). The analyses assume nothing of an
// opcode that is not in the table.
#ifndef TALLY_PTX_ANALYSIS_OPCODES_H
#define TALLY_PTX_ANALYSIS_OPCODES_H

#include "tally/ptx/ir/module.h"

#include <string_view>
#include <vector>

namespace tally::ptx {

/// The kind of value that an opcode writes into its first operand.
enum class ResultKind : std::uint8_t {
  None,    ///< no result: the first operand is a source (st, bra, bar.sync, …)
  Pure,    ///< equal sources give equal results
  Memory,  ///< a load: depends on the state space, see uniformity.h
  Varying, ///< may differ between threads whatever the sources (atom, shfl, tex, call, …)
  Unknown  ///< not in the table: any register operand may be written
};

/// Where an opcode takes values from, besides its operands and its guard.
enum class Intake : std::uint8_t {
  Operands, ///< no other source
  Carry,    ///< the carry flag, which forms with .cc write: addc, subc and madc
  Lanes,    ///< the threads of its warp or block
  Own,      ///< memory or state of its own block or cluster only
  Cached,   ///< memory, by a read that ptxas may do once for all turns of a loop
  Renewed,  ///< memory, by a read that ptxas does in each turn
  Anything  ///< any source: the opcode is not in the table, or is a call
};

/// Facts of one base opcode. Thread-safe: the table is constant.
ResultKind resultKindOf(const Instruction &instruction);
Intake intakeOf(const Instruction &instruction);

/// All opcodes in the table.
std::vector<std::string_view> knownOpcodes();

/// Whether the base opcode is in the table and the instruction has a possible shape: `ret` and
/// `exit` have no operands.
bool isKnown(const Instruction &instruction);

/// Calls `visit` with `operand` and every operand inside it.
template <class Visit> void forEachOperand(const Operand &operand, Visit &&visit) {
  visit(operand);
  for (const Operand &child : operand.children)
    forEachOperand(child, visit);
}

namespace detail {

template <class Visit> void forEachRegister(const Operand &operand, Visit &&visit) {
  if (operand.kind == OperandKind::Register)
    visit(operand);
  for (const Operand &child : operand.children)
    forEachRegister(child, visit);
}

} // namespace detail

/// Calls `visit` with each register operand that `instruction` writes / reads, at any nesting. Does
/// not visit the guard. An address's base is read, never written.
template <class Visit>
void forEachWrittenRegister(const Instruction &instruction, ResultKind kind, Visit &&visit) {
  if (kind == ResultKind::None || instruction.operands.empty())
    return;
  if (kind == ResultKind::Unknown) {
    for (const Operand &operand : instruction.operands)
      detail::forEachRegister(operand, visit);
    return;
  }
  if (instruction.operands[0].kind != OperandKind::Address)
    detail::forEachRegister(instruction.operands[0], visit);
}
template <class Visit>
void forEachReadRegister(const Instruction &instruction, ResultKind kind, Visit &&visit) {
  bool firstIsWritten = kind != ResultKind::None && kind != ResultKind::Unknown &&
                        !instruction.operands.empty() &&
                        instruction.operands[0].kind != OperandKind::Address;
  // wgmma adds to its accumulators, and some matrix operations read the operand that they write. To
  // count their first operand as read loses nothing, as their results vary anyway.
  for (const Operand &operand : instruction.operands.subspan(firstIsWritten ? 1 : 0))
    detail::forEachRegister(operand, visit);
}

/// The same, with the result kind from the opcode table.
template <class Visit> void forEachWrittenRegister(const Instruction &instruction, Visit &&visit) {
  forEachWrittenRegister(instruction, resultKindOf(instruction), visit);
}
template <class Visit> void forEachReadRegister(const Instruction &instruction, Visit &&visit) {
  forEachReadRegister(instruction, resultKindOf(instruction), visit);
}

/// Returns the name of a special register without `%` and component: "ctaid" of `%ctaid.x`.
std::string_view specialRegisterName(const Operand &operand);

/// Whether `instruction` synchronises a thread block: bar.* except bar.warp, and barrier.* except
/// barrier.cluster.
bool isBlockBarrier(const Instruction &instruction);
/// Whether it is a block barrier with .aligned, which bar.* implies.
bool isAlignedBarrier(const Instruction &instruction);

/// The threads that meet at a block barrier (PTX ISA 9.0, 9.7.13.1).
enum class BarrierForm : std::uint8_t {
  Full,    ///< sync or red without a thread count: all threads that have not exited
  Counted, ///< sync or red with a thread count
  Arrive,  ///< arrive: no thread waits
  Other    ///< not understood
};
BarrierForm barrierFormOf(const Instruction &barrier);
/// Returns the barrier's id. Not for BarrierForm::Other.
const Operand &barrierIdOf(const Instruction &barrier);

/// Whether `instruction` makes the threads of its member mask meet, and the mask may name threads
/// that have exited: shfl, vote, match, redux, bar.warp with .sync. The .aligned matrix operations
/// do not count: they need the whole warp in the user's kernel too.
bool isMaskedWarpSync(const Instruction &instruction);

/// Whether control never continues behind it when it executes: bra, brx, ret, exit.
bool isTerminator(const Instruction &instruction);

} // namespace tally::ptx

#endif
