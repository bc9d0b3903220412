// What the analyses know of PTX opcodes (PTX ISA 9.0, chapter 9). An opcode that is not in the
// table is unknown: nothing is assumed of it.
#ifndef TALLY_PTX_ANALYSIS_OPCODES_H
#define TALLY_PTX_ANALYSIS_OPCODES_H

#include "tally/ptx/ir/module.h"

#include <string_view>
#include <vector>

namespace tally::ptx {

/// What an opcode writes into its first operand.
enum class ResultKind : std::uint8_t {
  None,    ///< it has no result: the first operand is a source (st, bra, bar.sync, …)
  Pure,    ///< equal sources give equal results
  Memory,  ///< a load: depends on the state space, see uniformity.h
  Varying, ///< may differ between threads whatever the sources (atom, shfl, tex, call, …)
  Unknown  ///< not in the table: any register operand may be written
};

/// Where an opcode takes values from, beside its operands and its guard.
enum class Intake : std::uint8_t {
  Operands, ///< nowhere else
  Carry,    ///< the forms addc, subc and madc from the carry flag, which those with .cc write
  Lanes,    ///< from the threads of its warp or block
  Own,      ///< from memory or state of its own block or cluster alone
  Cached,   ///< from memory, by a read that ptxas may do once for all turns of a loop
  Renewed,  ///< from memory, by a read that ptxas does in each turn
  Anything  ///< not in the table, or a call: from wherever
};

/// Facts of one base opcode. Thread-safe: the table is constant.
ResultKind resultKindOf(const Instruction &instruction);
Intake intakeOf(const Instruction &instruction);

/// All names in the table.
std::vector<std::string_view> knownOpcodes();

/// Whether the base opcode is in the table, and the instruction has a shape that it can have: `ret`
/// and `exit` have no operands.
bool isKnown(const Instruction &instruction);

/// Calls `visit` with `operand` and everything inside it.
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

/// Calls `visit` with each register operand that `instruction` writes / reads, at any nesting. A
/// guard is not visited. An address's base is read, never written.
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
  // wgmma adds to its accumulators, and a matrix operand written in place reads itself: nothing is
  // lost by reading the first operand of those too, as their results vary anyway.
  for (const Operand &operand : instruction.operands.subspan(firstIsWritten ? 1 : 0))
    detail::forEachRegister(operand, visit);
}

/// The same, looking up what the opcode writes.
template <class Visit> void forEachWrittenRegister(const Instruction &instruction, Visit &&visit) {
  forEachWrittenRegister(instruction, resultKindOf(instruction), visit);
}
template <class Visit> void forEachReadRegister(const Instruction &instruction, Visit &&visit) {
  forEachReadRegister(instruction, resultKindOf(instruction), visit);
}

/// Name of a special register without `%` and component: "ctaid" of `%ctaid.x`.
std::string_view specialRegisterName(const Operand &operand);

/// Whether `instruction` synchronises a thread block: bar.*, barrier.* but bar.warp and
/// barrier.cluster.
bool isBlockBarrier(const Instruction &instruction);
/// And in the form with .aligned, which bar.* has without saying so.
bool isAlignedBarrier(const Instruction &instruction);

/// Who meets at a block barrier (PTX ISA 9.0, 9.7.13.1).
enum class BarrierForm : std::uint8_t {
  Full,    ///< sync or red without a thread count: all threads that have not exited
  Counted, ///< sync or red with a thread count
  Arrive,  ///< arrive: nobody waits
  Other    ///< not understood
};
BarrierForm barrierFormOf(const Instruction &barrier);
/// The barrier's id; not of BarrierForm::Other.
const Operand &barrierIdOf(const Instruction &barrier);

/// Whether `instruction` makes the threads of its member mask meet, with a mask that may name
/// threads that have exited: shfl, vote, match, redux, bar.warp with .sync. The .aligned matrix
/// operations are not: they need the whole warp in the user's kernel too.
bool isMaskedWarpSync(const Instruction &instruction);

/// Whether control never goes on after it when it executes: bra, brx, ret, exit.
bool isTerminator(const Instruction &instruction);

} // namespace tally::ptx

#endif
