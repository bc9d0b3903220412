// In which of its loops a kernel polls, so that a long block can be asked to stop before its end.
//
// Of nested loops the innermost one is taken that is long: one turn of it, or all of its turns
// together, last the period by estimate. (A turn of a loop further in would be many polls, one of a
// loop further out a long wait.) A loop around it polls too where it may turn without coming by the
// inner one's poll, or is long without it. An outermost loop whose turns are not known is always
// taken: nothing else bounds the time from one poll to the next. A loop that is entered at several
// places has no header to poll at, and one around it polls in its place.
//
// The estimates are of the work that is written down, in cycles of one warp among as many as the
// registers that are live in loops leave room for; they decide what a poll costs and how long it
// may be in coming, and nothing of what is computed.
#ifndef TALLY_PTX_ANALYSIS_POLL_SITES_H
#define TALLY_PTX_ANALYSIS_POLL_SITES_H

#include "tally/ptx/analysis/cfg.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace tally::ptx {

/// A register that moves on by the same power of two in each turn of a loop, whatever it starts
/// from: of the bits above that, a mask of n is all 0 in each 2^n-th turn and in no other.
struct TurnRegister {
  RegisterId reg = noRegister;
  std::uint32_t mask = 0; ///< of the register's low 32 bits
};

/// How a loop can be cut into strips: so many turns become a loop of their own, with the poll
/// between two of them and nothing more in their turns, or one comparison. The loop goes on by one
/// branch back to its header, decided by a comparison, in the same block, of a counter with what no
/// turn changes; the counter moves on by a constant, or up by what no turn changes either.
struct StripLoop {
  RegisterId counter =
      noRegister;        ///< as it is at the header; noRegister: the loop has no such form
  std::int64_t step = 0; ///< of a turn; the strip's length in turns times it fits in 31 bits
  /// What a turn adds, where that is no constant, and `step` 0. Of the counter's width.
  RegisterId stride = noRegister;
  std::uint32_t turns = 0;   ///< of a strip
  bool isWide = false;       ///< 64 bits, else 32
  bool isSigned = false;     ///< the comparison
  bool isExact = false;      ///< it is for equality: the counter must not be led past the limit
  std::uint32_t compare = 0; ///< the statement, a setp
  std::uint32_t branch = 0;  ///< the branch, the block's last
  /// The load of the limit from a parameter, where each turn makes it.
  std::optional<std::uint32_t> limitLoad;
  /// Before this the inner loop's branch stands: the comparison where nothing but the branch needs
  /// its outcome, else the branch.
  std::uint32_t turnsAt = 0;
};

/// One loop that polls.
struct PollSite {
  const CfgBlock *header = nullptr; ///< of the CFG that was searched
  std::vector<CfgBlock *> blocks;   ///< of the loop
  std::uint32_t statement = 0; ///< the header's first instruction, before which the poll stands
  std::uint64_t cycles = 1;    ///< of a turn, by estimate; of inner loops too, unless they poll
  std::uint32_t turns = 1;     ///< of which one is to poll, but for strips
  /// What tells that turn from the others at no cost, where a loop has it; `turns` is a power of
  /// two then. `reg` is noRegister where turns is 1, where there is no such register, and where the
  /// loop may be left, again and again, before that turn comes.
  TurnRegister turn;
  StripLoop strip; ///< of two turns or more, where the loop is likely to make as many at a time
  bool isOutermost = false; ///< inside of no other loop: a block comes to it once
};

struct PollRules {
  /// Cycles, at least 1; 5 to 6 us at 1.4 to 1.8 GHz. Loops of less do not poll.
  std::uint64_t period = 8192;
  /// Periods from a request until it is seen. So many are from one poll to the next where a loop is
  /// cut into strips: between two of them who polls waits for what is read there.
  std::uint32_t seenWithin = 5;

  /// Cycles from one poll to the next elsewhere: what is looked at was read at the poll before.
  std::uint64_t apart() const { return period * seenWithin / 2; }
};

/// The loops of `cfg` that poll, in the order of their headers. None where all loops are short.
std::vector<PollSite> findPollSites(Cfg &cfg, const PollRules &rules = {});

} // namespace tally::ptx

#endif
