// Counts the turns of a loop, and finds the register that counts them.
#ifndef TALLY_LIB_PTX_ANALYSIS_TURNS_H
#define TALLY_LIB_PTX_ANALYSIS_TURNS_H

#include "definitions.h"
#include "loops.h"
#include "tally/ptx/analysis/poll_sites.h"

#include <cstdint>
#include <optional>

namespace tally::ptx {

/// Whether `loop` can make a turn without executing `block`, one of its blocks. True for a loop
/// without a single header.
bool mayTurnWithout(const Loop &loop, const CfgBlock &block);

/// Returns the only block of `blocks`, the blocks of a loop, that branches back to `header`, by a
/// plain branch to its label; or null.
const CfgBlock *latchOf(const Cfg &cfg, const CfgBlock &header, llvm::ArrayRef<CfgBlock *> blocks);

/// The counters of one loop.
class Turns {
public:
  /// `all`: the definitions of the whole function.
  Turns(const Cfg &cfg, const Loop &loop, const Definitions &all);

  /// Returns the number of turns where the text gives it: the loop compares a counter in constant
  /// steps with a constant. The counter begins at a constant, at low bits of a value (taken as all
  /// set or all clear), or at an unknown value, taken as 0. It is an estimate: a comparison counts
  /// if only the loop may be left by it.
  std::optional<std::uint64_t> constant() const;

  /// Returns a register that tells each `turns`-th turn, if the loop has one. `turns`: a power of
  /// two.
  TurnRegister registerFor(std::uint32_t turns) const;

  /// Returns the division of the loop into strips of `turns` turns.
  StripLoop stripFor(std::uint32_t turns) const;

private:
  /// A register that grows in each turn, by a constant or by a register that no turn changes.
  struct Counter {
    RegisterId reg, next; ///< at the header, and behind the step; may be the same register
    std::int64_t step;
    RegisterId stride = noRegister;
  };
  bool comesByOnceEachTurn(std::uint32_t statement) const;
  bool isSetAtHeader(const Counter &counter) const;
  bool isCopiedBefore(RegisterId reg, RegisterId copy, std::uint32_t statement) const;
  std::optional<Counter> counterBetween(RegisterId from, RegisterId to) const;
  bool isAssignedBetween(RegisterId reg, std::uint32_t from, std::uint32_t to) const;
  bool loadsParameter(std::uint32_t statement, bool isWide) const;
  bool isReadElsewhere(RegisterId reg, std::uint32_t branch) const;
  std::optional<std::int64_t> extremeOf(std::uint32_t statement, bool least) const;
  std::optional<std::int64_t> initialOf(const Counter &counter) const;

  const Cfg &cfg;
  const Loop &loop;
  const Definitions &all;
  Definitions inside;
  std::vector<Counter> counters; ///< counters in constant steps
  std::vector<Counter> strided;
};

} // namespace tally::ptx

#endif
