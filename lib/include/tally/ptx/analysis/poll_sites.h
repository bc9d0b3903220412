// Selects the loops in which a kernel polls, so that a long block can be asked to stop before its
// end.
//
// Of nested loops the finder takes the innermost long loop: a loop whose single turn, or all turns
// together, last the period by estimate. (A poll in each turn of an inner loop would be many polls;
// a poll in each turn of an outer loop a long wait.) A loop around it polls too where a turn may
// miss the inner poll, or is long without it. The finder always takes an outermost loop with an
// unknown number of turns: nothing else bounds the time between polls. A loop with several entry
// blocks has no header to poll at; a loop around it polls instead.
//
// The estimates count the instructions in the text, in cycles of one warp among as many warps as
// the registers that are live in loops allow. They decide what a poll costs and how late it may
// come, never what the kernel computes.
#ifndef TALLY_PTX_ANALYSIS_POLL_SITES_H
#define TALLY_PTX_ANALYSIS_POLL_SITES_H

#include "tally/ptx/analysis/cfg.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace tally::ptx {

/// A register that changes by the same power of two in each turn of a loop, from any initial value.
/// A mask of n of the bits from that power up is all 0 in each 2^n-th turn and in no other.
struct TurnRegister {
  RegisterId reg = noRegister;
  std::uint32_t mask = 0; ///< mask of the register's low 32 bits
};

/// The division of a loop into strips: a number of turns becomes an inner loop. The poll stands
/// between two strips, and a turn costs nothing more, or one comparison. The loop continues by a
/// single branch back to its header. A comparison in the same block decides it: of a counter with a
/// limit that no turn changes. The counter changes by a constant, or grows by a value that no turn
/// changes.
struct StripLoop {
  RegisterId counter = noRegister; ///< value at the header; noRegister: the loop has no such form
  std::int64_t step = 0; ///< step of a turn; the strip's length in turns times it fits in 31 bits
  /// The register that a turn adds, where the step is no constant and `step` is 0. It has the
  /// counter's width.
  RegisterId stride = noRegister;
  std::uint32_t turns = 0;   ///< turns of a strip
  bool isWide = false;       ///< 64 bits, else 32
  bool isSigned = false;     ///< whether the comparison is signed
  bool isExact = false;      ///< comparison for equality: the counter must not pass the limit
  std::uint32_t compare = 0; ///< the statement, a setp
  std::uint32_t branch = 0;  ///< the branch, the block's last
  /// The load of the limit from a parameter, where each turn loads it.
  std::optional<std::uint32_t> limitLoad;
  /// The inner loop's branch stands before this statement: the comparison where only the branch
  /// needs its outcome, else the branch.
  std::uint32_t turnsAt = 0;
};

/// One loop that polls.
struct PollSite {
  const CfgBlock *header = nullptr; ///< block of the searched CFG
  std::vector<CfgBlock *> blocks;   ///< blocks of the loop
  std::uint32_t statement = 0;      ///< the header's first instruction; the poll stands before it
  std::uint64_t cycles = 1;         ///< estimate of a turn, with inner loops that do not poll
  std::uint32_t turns = 1;          ///< one turn in this many polls, except with strips
  /// Tells the polling turn at no cost, where the loop has such a register; `turns` is then a power
  /// of two. `reg` is noRegister where turns is 1, where there is no such register, and where the
  /// loop may be left repeatedly before that turn comes.
  TurnRegister turn;
  StripLoop strip; ///< strips of two turns or more, where the loop is likely to make as many turns
  bool isOutermost = false; ///< in no other loop: a block enters it once
};

struct PollRules {
  /// Cycles, at least 1; 5 to 6 us at 1.4 to 1.8 GHz. Shorter loops do not poll.
  std::uint64_t period = 8192;
  /// Periods from a request until a poll sees it. Where a loop is cut into strips, this many
  /// periods lie between two polls: between strips the polling thread waits for the word that it
  /// reads.
  std::uint32_t seenWithin = 5;

  /// Cycles between polls elsewhere: there a poll looks at the word read at the poll before.
  std::uint64_t apart() const { return period * seenWithin / 2; }
};

/// The loops of `cfg` that poll, in the order of their headers. None where all loops are short.
std::vector<PollSite> findPollSites(Cfg &cfg, const PollRules &rules = {});

} // namespace tally::ptx

#endif
