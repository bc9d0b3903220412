// Finds the assignments of a register that reach a use of it.
#ifndef TALLY_PTX_ANALYSIS_REGISTER_VALUES_H
#define TALLY_PTX_ANALYSIS_REGISTER_VALUES_H

#include "tally/ptx/analysis/cfg.h"

#include "llvm/ADT/DenseMap.h"

#include <utility>
#include <vector>

namespace tally::ptx {

/// Compilers reuse a register for another value. This class tells the values of one register apart:
/// each assignment makes a value, and where paths with different values meet there is a value that
/// may be any of them. Registers that are assigned once, as most are, have one value.
///
/// Ids below the function's `registerCount` stand for any value that the register may ever hold.
/// The value at the function's entry is such a value: a worker's last block may have left anything
/// there.
class RegisterValues {
public:
  using Id = std::uint32_t;

  explicit RegisterValues(const Cfg &cfg);

  std::size_t count() const { return total; }
  /// Returns the value of a register operand of the function's body, where it is read or written.
  Id of(const Operand &operand) const {
    auto found = values.find(&operand);
    return found == values.end() ? operand.reg : found->second;
  }
  /// Pairs `from`, `to`: the value `to` may be the value `from`.
  const std::vector<std::pair<Id, Id>> &flows() const { return flowsTo; }

private:
  friend class RegisterValuesBuilder;

  llvm::DenseMap<const Operand *, Id> values;
  std::vector<std::pair<Id, Id>> flowsTo;
  std::size_t total;
};

} // namespace tally::ptx

#endif
