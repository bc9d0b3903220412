// Where the threads that part around a loop come together again, whatever each of them does.
//
// A thread that stops at the head of a loop, and leaves the body at once, comes by none of these
// places: a branch ahead of one no longer has it as its post-dominator, and ptxas, which lets
// threads meet at post-dominators, does not let them meet there any more, whether any stops or not.
// If it comes by each of them, without doing anything of the user's, it does.
//
//   OUTER: ...                     // a join for who stops at INNER or OUTER:
//   INNER: ...; @more bra INNER;
//          ...                     // <- INNER's only
//          @again bra OUTER;
//          ...                     // <- of both
#ifndef TALLY_PTX_ANALYSIS_JOINS_H
#define TALLY_PTX_ANALYSIS_JOINS_H

#include "tally/ptx/analysis/cfg.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace tally::ptx {

struct Join {
  std::uint32_t statement = 0;  ///< the first instruction there, in the body's outer scope
  std::optional<unsigned> next; ///< the one that who comes by here comes by next, by its number
};

struct Joins {
  std::vector<Join> joins;                      ///< by place
  std::vector<std::optional<unsigned>> ofHeads; ///< the first one behind each loop
};

/// The joins of the loops with heads at these statements: the immediate post-dominator of each
/// branch on which it depends whether a loop's head is come to, at once or by way of other
/// branches, but for those in the loop itself. Each post-dominates its head, so those of one head
/// stand in one order. Left out is what stands in an inner scope or holds no instruction. None
/// where the body may turn for ever: then hardly anything is a post-dominator.
Joins findJoins(Cfg &cfg, const std::vector<std::uint32_t> &heads);

} // namespace tally::ptx

#endif
