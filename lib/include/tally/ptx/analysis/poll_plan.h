// The plan of a kernel's polls in its loops: the place of each poll, and the turns that poll.
#ifndef TALLY_PTX_ANALYSIS_POLL_PLAN_H
#define TALLY_PTX_ANALYSIS_POLL_PLAN_H

#include "tally/ptx/analysis/poll_sites.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace tally::ptx {

/// Where the poll of a site stands.
enum class PollPlace : std::uint8_t {
  /// Between two strips of the loop. The loop's turns pay nothing for it. The poll also stands
  /// before the first strip only in a loop that a block may enter often: otherwise the block has
  /// polled just before.
  Strip,
  /// Right behind the header's label. Threads that skip the poll wait for threads that do not, as
  /// behind any `if`. This is correct for any divergence of a warp, and costs a few instructions in
  /// each turn.
  Header,
  /// Before the only branch back to the header. Most turns branch before they reach the poll, so it
  /// costs no more than the test for the turn. But threads of a warp that disagree on the turn
  /// would wait for each other with the loop's instructions between them. So the pass uses it only
  /// where analysis shows one decision for the whole block.
  Latch
};

struct PollPoint {
  PollPlace place = PollPlace::Header;
  std::uint32_t statement = 0; ///< the statement behind the poll
  std::string_view header;     ///< Latch: the target label of the branch
  std::uint32_t turns = 1;     ///< one turn in this many polls
  std::uint64_t cycles = 1;    ///< estimated cycles of a turn
  StripLoop strip;             ///< Strip
  bool isOutermost = false;    ///< see PollSite
  TurnRegister turn;           ///< see PollSite; for a Latch uniform over the block
};

/// Returns a poll point for each of findPollSites() of `cfg`, the CFG of a kernel.
std::vector<PollPoint> planPolls(Cfg &cfg, const PollRules &rules);

} // namespace tally::ptx

#endif
