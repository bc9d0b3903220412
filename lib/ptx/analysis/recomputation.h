// Registers that need not be saved at a loop's head: their values follow from what is there.
#ifndef TALLY_LIB_PTX_ANALYSIS_RECOMPUTATION_H
#define TALLY_LIB_PTX_ANALYSIS_RECOMPUTATION_H

#include "tally/ptx/analysis/cfg.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/GenericDomTree.h"

#include <vector>

namespace tally::ptx {

/// What does not depend on the place in a function.
class RecomputationFacts {
public:
  /// The two sets: what has no name in the body's outer scope.
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
  std::vector<std::uint32_t> assignedBy; ///< by register: a statement, `never` or `several`
};

/// Of the registers that are live at one loop's head: which can be made again there.
///
/// * One instruction alone assigns the register, without a guard and from registers, constants,
///   parameters, thread and block ids alone: integer and floating-point arithmetic, moves, loads of
///   parameters. What is made of the last four alone is the same wherever it is defined at all.
/// * Where it reads registers that are saved at the head, these are assigned once too, each by an
///   instruction that every way to this one comes by, and every way to the head comes by this one:
///   then no way leads from the source's instruction to the head that misses this one, so the
///   source still holds at the head what was read here.
class Recomputation {
public:
  /// `live` at the begin of `header`.
  Recomputation(const RecomputationFacts &facts, const CfgBlock &header,
                const std::vector<RegisterId> &live);
  bool canMake(RegisterId reg);
  /// Adds the statements that make `reg`, which canMake() is true of, each once, behind those that
  /// make what they read.
  void addTo(std::vector<std::uint32_t> &statements, RegisterId reg);

private:
  bool isSource(const Operand &operand, std::uint32_t reader);
  bool isParameter(const Operand &base) const;
  bool makes(std::uint32_t statement);

  const RecomputationFacts &facts;
  const CfgBlock &header;
  llvm::DenseSet<RegisterId> live;
  llvm::DenseMap<RegisterId, bool> known;
};

} // namespace tally::ptx

#endif
