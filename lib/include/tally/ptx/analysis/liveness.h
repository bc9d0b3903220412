// Which registers hold a value that may still be read.
#ifndef TALLY_PTX_ANALYSIS_LIVENESS_H
#define TALLY_PTX_ANALYSIS_LIVENESS_H

#include "tally/ptx/analysis/cfg.h"

#include "llvm/ADT/BitVector.h"

#include <vector>

namespace tally::ptx {

/// A register is live at a place when some way from there reads it before it is written for sure.
/// Backward data flow over the CFG, to the least fixed point:
///
/// * A write under a guard, to a component of a vector register (`%v.x`), or by an opcode that is
///   not known does not end a value; an unknown opcode reads all its registers. Asynchronous matrix
///   operations (wgmma, tcgen05) read what they accumulate into.
/// * A loop is left or gone round by any of its edges; what a branch tests is not looked at. So a
///   register may be said to be live that no execution reads, never the reverse.
/// * Ways that always end in `trap` are left out of the CFG (cfg.h), and so is what only they read.
/// * The condition code of add.cc and its kin is no register: see carryLiveBefore().
///
/// Space and time are linear in the instructions and in blocks × registers that live across
/// blocks, a few in a hundred of what compilers name.
class Liveness {
public:
  explicit Liveness(const Cfg &cfg);

  /// Ascending; of a block's begin and end, and of the place before a statement, which must be an
  /// instruction of the CFG. Before a block's first instruction that is liveIn().
  std::vector<RegisterId> liveIn(const CfgBlock &block) const;
  std::vector<RegisterId> liveOut(const CfgBlock &block) const;
  std::vector<RegisterId> liveBefore(std::uint32_t statement) const;

  /// Whether addc, subc or madc, further down in the block of `statement` or in it, reads a
  /// condition code that was set before it. (Across blocks none may be expected: PTX ISA 9.7.2.)
  bool carryLiveBefore(std::uint32_t statement) const;

private:
  static constexpr std::uint32_t local = ~std::uint32_t{0};

  void findCrossing();
  void solve();
  std::vector<RegisterId> namesOf(const llvm::BitVector &set) const;

  const Cfg &cfg;
  std::vector<std::uint32_t> indexOf;   ///< of a register among the crossing ones, or `local`
  std::vector<RegisterId> crossing;     ///< registers that some block reads before it writes them
  std::vector<llvm::BitVector> in, out; ///< by block; over `crossing`
};

} // namespace tally::ptx

#endif
