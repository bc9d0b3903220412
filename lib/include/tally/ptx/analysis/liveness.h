// Finds the registers that hold a value which may still be read.
#ifndef TALLY_PTX_ANALYSIS_LIVENESS_H
#define TALLY_PTX_ANALYSIS_LIVENESS_H

#include "tally/ptx/analysis/cfg.h"

#include "llvm/ADT/BitVector.h"

#include <vector>

namespace tally::ptx {

/// A register is live at a place when some path from there reads it before it is surely written.
/// Backward data flow over the CFG, to the least fixed point:
///
/// * A write under a guard, to a component of a vector register (`%v.x`), or by an unknown opcode
///   does not end a value; an unknown opcode reads all its registers. Asynchronous matrix
///   operations (wgmma, tcgen05) read their accumulators.
/// * Any edge of a loop may leave it or go round it; the analysis does not look at branch
///   conditions. So it may report a register as live that no execution reads, never the reverse.
/// * The CFG leaves out paths that always end in `trap` (cfg.h), and so the reads on them.
/// * The condition code of the .cc instructions is no register: see carryLiveBefore().
///
/// Space and time are linear in the instructions and in blocks × registers that live across blocks,
/// a few percent of the registers that compilers name.
class Liveness {
public:
  explicit Liveness(const Cfg &cfg);

  /// The live registers, ascending: at a block's begin and end, and before a statement, which must
  /// be an instruction of the CFG. Before a block's first instruction that is liveIn().
  std::vector<RegisterId> liveIn(const CfgBlock &block) const;
  std::vector<RegisterId> liveOut(const CfgBlock &block) const;
  std::vector<RegisterId> liveBefore(std::uint32_t statement) const;

  /// Whether addc, subc or madc, in `statement` or further down in its block, reads a condition
  /// code that was set before `statement`. (PTX ISA 9.7.2: no condition code lives across blocks.)
  bool carryLiveBefore(std::uint32_t statement) const;

private:
  static constexpr std::uint32_t local = ~std::uint32_t{0};

  void findCrossing();
  void solve();
  std::vector<RegisterId> namesOf(const llvm::BitVector &set) const;

  const Cfg &cfg;
  std::vector<std::uint32_t> indexOf;   ///< index of a register in `crossing`, or `local`
  std::vector<RegisterId> crossing;     ///< registers that some block reads before it writes them
  std::vector<llvm::BitVector> in, out; ///< live registers by block; over `crossing`
};

} // namespace tally::ptx

#endif
