// How a kernel polls in its loops: where each poll stands, and how it is told whose turn it is.
#ifndef TALLY_PTX_ANALYSIS_POLL_PLAN_H
#define TALLY_PTX_ANALYSIS_POLL_PLAN_H

#include "tally/ptx/analysis/poll_sites.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace tally::ptx {

/// Where the poll of a site stands.
enum class PollPlace : std::uint8_t {
  /// Between two strips of the loop. That costs its turns nothing. Before the first one only in a
  /// loop that a block may come to often: else the block has been asked just before.
  Strip,
  /// Right behind the header's label. Threads that skip it wait for those that do not, as behind
  /// any
  /// `if`: right whatever the threads of a warp do, and a few instructions in each turn.
  Header,
  /// Before the one branch back to the header, which most turns take before they come to the poll.
  /// That costs no more than what tells the turn; but threads of a warp that disagree on the turn
  /// would wait for each other with the loop's instructions between them. So it is taken where the
  /// decision is one for the whole block, or for a warp, by analysis.
  Latch
};

struct PollPoint {
  PollPlace place = PollPlace::Header;
  std::uint32_t statement = 0; ///< that the poll stands before
  std::string_view header;     ///< Latch: the label that the branch goes to
  std::uint32_t turns = 1;     ///< of which one polls
  std::uint64_t cycles = 1;    ///< of a turn, by estimate
  StripLoop strip;             ///< Strip
  bool isOutermost = false;    ///< see PollSite
  TurnRegister turn;           ///< see PollSite; of a Latch one that is the same for the block
};

/// Where `cfg`, a kernel's, polls: a point for each of findPollSites().
std::vector<PollPoint> planPolls(Cfg &cfg, const PollRules &rules);

} // namespace tally::ptx

#endif
