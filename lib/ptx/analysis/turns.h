// How often a loop turns, and which register counts its turns.
#ifndef TALLY_LIB_PTX_ANALYSIS_TURNS_H
#define TALLY_LIB_PTX_ANALYSIS_TURNS_H

#include "definitions.h"
#include "loops.h"
#include "tally/ptx/analysis/poll_sites.h"

#include <cstdint>
#include <optional>

namespace tally::ptx {

/// Whether `loop` can turn without coming by `block`, one of its blocks. A loop without a single
/// header is taken to.
bool mayTurnWithout(const Loop &loop, const CfgBlock &block);

/// The one block of `blocks`, a loop's, that branches back to `header`, by a plain branch with its
/// label; or null.
const CfgBlock *latchOf(const Cfg &cfg, const CfgBlock &header, llvm::ArrayRef<CfgBlock *> blocks);

/// How one loop moves on.
class Turns {
public:
  /// `all`: the definitions of the whole function.
  Turns(const Cfg &cfg, const Loop &loop, const Definitions &all);

  /// The number of turns where it is written down: a counter in constant steps that is compared
  /// with a constant, from a constant, from low bits of something, all of them set or clear, or
  /// from what is taken for 0. An estimate, as of a comparison no more is looked at than that the
  /// loop may be left by it.
  std::optional<std::uint64_t> constant() const;

  /// A register that tells each `turns`-th turn, where the loop has one. `turns`: a power of two.
  TurnRegister registerFor(std::uint32_t turns) const;

  /// How the loop can be cut into strips of so many turns.
  StripLoop stripFor(std::uint32_t turns) const;

private:
  /// A register of the header's that is larger in each turn, by a constant or by what another
  /// register holds, which no turn changes.
  struct Counter {
    RegisterId reg, next; ///< at the header, and behind the step; the same where it is one register
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
  std::vector<Counter> counters; ///< in constant steps
  std::vector<Counter> strided;
};

} // namespace tally::ptx

#endif
