// How threads that stop one by one leave the body without drawing others apart: the coding `joined`
// of checkpoint.
//
//   before   INNER: <turn>; @more bra INNER;  <part>  @again bra OUTER;  <rest>
//   after    INNER: <poll> <turn>; @more bra INNER;
//            join_1: @stopped bra past_1;  <part>  @again bra OUTER;
//            join_2: @stopped bra past_2;  <rest>
//            <behind the body>  past_1: bra join_2;  past_2: bra stow;
//
// A poll that stops saves the thread's registers, sets `stopped` and goes to the first join behind
// its loop (analysis/joins.h). Behind the last one the thread's local memory is saved, which nobody
// has touched in between. `stopped` is told, at both values, by a parameter's byte of which ptxas
// knows nothing: else it would see whom each branch is for, and lead both around it. What is live
// at a join, but not where who has stopped comes from, is set to 0 on the way there: else ptxas
// would keep it in registers ahead of the instruction that makes it.
#ifndef TALLY_LIB_PTX_TRANSFORMS_JOINED_STOPS_H
#define TALLY_LIB_PTX_TRANSFORMS_JOINED_STOPS_H

#include "tally/ptx/analysis/joins.h"
#include "tally/ptx/analysis/liveness.h"
#include "tally/ptx/transforms/editor.h"
#include "tally/ptx/transforms/pass.h"

#include <string>
#include <vector>

namespace tally::ptx {

class JoinedStops {
public:
  explicit JoinedStops(const PassInput &input);

  /// Whether some thread comes by a join, and all can be set to 0 that has to.
  bool exist() const;

  /// Where a block begins or goes on: nobody has stopped. Uses %tally_r0.
  std::string begin() const { return set(false); }
  /// Behind what a point saves: on to the first join. Uses %tally_r0. `number`: the point's,
  /// from 1.
  std::string stop(unsigned number) const;
  /// The joins: before what else stands before these instructions, since who has stopped does none
  /// of it.
  void insert(FunctionEditor &editor) const;
  /// Behind the body: the ways from each join to the next.
  std::string ways() const;

private:
  static std::string set(bool stopped);
  static std::string nameOf(std::optional<unsigned> join);
  const CfgBlock &blockOf(std::uint32_t statement) const;
  std::vector<RegisterId> madeBetween(std::uint32_t from, std::optional<unsigned> join) const;
  std::string onTo(std::uint32_t from, std::optional<unsigned> join) const;

  const PassInput &input;
  Cfg cfg;
  Joins joins;
  Liveness liveness;
};

} // namespace tally::ptx

#endif
