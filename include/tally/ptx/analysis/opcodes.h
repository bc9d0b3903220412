// What the analyses know of PTX opcodes (PTX ISA 9.0, chapter 9). An opcode that is not in the
// table is unknown: nothing is assumed of it.
#ifndef TALLY_PTX_ANALYSIS_OPCODES_H
#define TALLY_PTX_ANALYSIS_OPCODES_H

#include "tally/ptx/ir/module.h"

#include <functional>
#include <string_view>

namespace tally::ptx {

/// What an opcode writes into its first operand.
enum class ResultKind : std::uint8_t {
  None,    ///< it has no result: the first operand is a source (st, bra, bar.sync, …)
  Pure,    ///< equal sources give equal results
  Memory,  ///< a load: depends on the state space, see uniformity.h
  Varying, ///< may differ between threads whatever the sources (atom, shfl, tex, call, …)
  Unknown  ///< not in the table: any register operand may be written
};

/// Facts of one base opcode. Thread-safe: the table is constant.
ResultKind resultKindOf(const Instruction &instruction);

/// Whether the base opcode is in the table.
bool isKnownOpcode(std::string_view opcode);

/// Calls `visit` with each register operand that `instruction` writes / reads, at any nesting. A
/// guard is not visited. An address's base is read, never written.
void forEachWrittenRegister(const Instruction &instruction,
                            const std::function<void(const Operand &)> &visit);
void forEachReadRegister(const Instruction &instruction,
                         const std::function<void(const Operand &)> &visit);

/// Calls `visit` with `operand` and everything inside it.
void forEachOperand(const Operand &operand, const std::function<void(const Operand &)> &visit);

/// Name of a special register without `%` and component: "ctaid" of `%ctaid.x`.
std::string_view specialRegisterName(const Operand &operand);

/// Whether `instruction` synchronises a thread block: bar.*, barrier.* but bar.warp and
/// barrier.cluster.
bool isBlockBarrier(const Instruction &instruction);

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
