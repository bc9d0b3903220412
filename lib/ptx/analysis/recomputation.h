// Registers that need not be saved at a loop's head: the block can recompute their values.
#ifndef TALLY_LIB_PTX_ANALYSIS_RECOMPUTATION_H
#define TALLY_LIB_PTX_ANALYSIS_RECOMPUTATION_H

#include "tally/ptx/analysis/cfg.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/GenericDomTree.h"

#include <vector>

namespace tally::ptx {

/// Facts of a function that hold for all of its loops.
class RecomputationFacts {
public:
  /// The two sets name registers and variables that are not visible in the body's outer scope.
  RecomputationFacts(Cfg &cfg, const llvm::DenseSet<RegisterId> &innerRegisters,
                     const llvm::StringSet<> &innerVariables);

private:
  friend class Recomputation;
  bool dominates(std::uint32_t statement, std::uint32_t other) const;

  const Cfg &cfg;
  const llvm::DenseSet<RegisterId> &innerRegisters;
  const llvm::StringSet<> &innerVariables;
  llvm::DominatorTreeBase<CfgBlock, false> dominators;
  static constexpr std::uint32_t never = ~std::uint32_t{0}, several = never - 1;
  /// Assignment by register: a statement, `never` or `several`.
  std::vector<std::uint32_t> assignedBy;
};

/// Which registers that are live at one loop's head can be recomputed there.
///
/// * A single instruction assigns the register, without a guard, from registers, constants,
///   parameters, thread and block ids only: integer and floating-point arithmetic, moves, loads of
///   parameters. A value made of the last four only is the same wherever it is defined at all.
/// * Registers that it reads and that are saved at the head are also assigned once, each by an
///   instruction that every path to this instruction passes, and every path to the head passes this
///   instruction. Then no path leads from the source's instruction to the head without passing this
///   instruction, so the source still has at the head the value that this instruction read.
class Recomputation {
public:
  /// `live`: the registers that are live at the begin of `header`.
  Recomputation(const RecomputationFacts &facts, const CfgBlock &header,
                const std::vector<RegisterId> &live);
  bool canMake(RegisterId reg) { return ask(reg, maxDepth) == Answer::Yes; }
  /// Adds the statements that compute `reg`, for which canMake() is true, each once and behind the
  /// statements that compute its sources.
  void addTo(llvm::SetVector<std::uint32_t> &statements, RegisterId reg);

private:
  /// Limit on chained instructions: longer chains cost more than saving a register.
  static constexpr unsigned maxDepth = 64;

  /// Open: the query is running already, so the register depends on itself. Nothing may depend on
  /// such a register, nor on its being saved.
  enum class Answer : std::uint8_t { Open, No, Yes };
  Answer ask(RegisterId reg, unsigned depth);
  bool isSource(const Operand &operand, std::uint32_t reader, unsigned depth);
  bool isParameter(const Operand &base) const;
  bool makes(std::uint32_t statement, unsigned depth);

  const RecomputationFacts &facts;
  const CfgBlock &header;
  llvm::DenseSet<RegisterId> live;
  llvm::DenseMap<RegisterId, Answer> known;
};

} // namespace tally::ptx

#endif
