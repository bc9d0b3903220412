// Registers that need not be saved at a loop's head: their values follow from what is there.
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
  bool canMake(RegisterId reg) { return ask(reg, maxDepth) == Answer::Yes; }
  /// Adds the statements that make `reg`, which canMake() is true of, each once, behind those that
  /// make what they read.
  void addTo(llvm::SetVector<std::uint32_t> &statements, RegisterId reg);

private:
  /// Instructions that are made of one another: longer chains cost more than a register saved.
  static constexpr unsigned maxDepth = 64;

  /// Open: it is being asked already, so that the register is made of itself. Nothing is built on
  /// that, nor on its being saved.
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
