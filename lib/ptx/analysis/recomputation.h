// Registers whose value follows from parameters and constants alone: they can be made again.
#ifndef TALLY_LIB_PTX_ANALYSIS_RECOMPUTATION_H
#define TALLY_LIB_PTX_ANALYSIS_RECOMPUTATION_H

#include "tally/ptx/analysis/cfg.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringSet.h"

#include <vector>

namespace tally::ptx {

/// A register can be made again where one instruction alone assigns it, without a guard, and that
/// is a load of a parameter, a move or an address conversion, of what can be made again itself: it
/// is then the same wherever it is defined at all. Arithmetic is left out: its result takes a
/// register in either way, while a parameter need not take one.
class Recomputation {
public:
  /// what has no name in the body's outer scope.
  Recomputation(const Cfg &cfg, const llvm::DenseSet<RegisterId> &innerRegisters,
                const llvm::StringSet<> &innerVariables);
  bool canMake(RegisterId reg);
  /// Adds the statements that make `reg`, which canMake() is true of, each once.
  void addTo(std::vector<std::uint32_t> &statements, RegisterId reg) const;

private:
  bool isSource(const Operand &operand);
  bool isParameter(const Operand &base) const;

  const Cfg &cfg;
  const llvm::DenseSet<RegisterId> &innerRegisters;
  const llvm::StringSet<> &innerVariables;
  static constexpr std::uint32_t never = ~std::uint32_t{0}, several = never - 1;
  std::vector<std::uint32_t> assignedBy; ///< by register: a statement, `never` or `several`
  llvm::DenseMap<RegisterId, bool> known;
};

} // namespace tally::ptx

#endif
