#include "tally/ptx/analysis/poll_plan.h"

#include "turns.h"

#include "tally/ptx/analysis/opcodes.h"
#include "tally/ptx/analysis/uniformity.h"

#include "llvm/ADT/STLExtras.h"

namespace tally::ptx {
namespace {

/// Returns the statement behind the label that opens the block whose first instruction is `first`,
/// and behind the pragmas that belong to the label.
std::uint32_t behindLabel(const Function &function, std::uint32_t first) {
  std::uint32_t at = first;
  while (at > 1 && function.body[at - 1].kind != StatementKind::Label &&
         function.body[at - 1].kind != StatementKind::Instruction)
    --at;
  if (function.body[at - 1].kind != StatementKind::Label)
    return first;
  while (at != first && function.body[at].kind == StatementKind::Pragma &&
         function.body[at].text.find("used_bytes_mask") == std::string_view::npos)
    ++at;
  return at;
}

PollPoint pointOf(const Cfg &cfg, const Uniformity &uniformity, const PollRules &rules,
                  const PollSite &site) {
  PollPoint point;
  point.statement = behindLabel(cfg.function(), site.statement);
  point.turns = site.turns;
  point.cycles = site.cycles;
  point.turn = site.turn;
  point.isOutermost = site.isOutermost;
  // If a turn is so long that each turn polls, polling costs less without strips: then no thread
  // waits for the word that the poll reads.
  if (site.strip.counter != noRegister && site.turns > 1) {
    point.place = PollPlace::Strip;
    point.strip = site.strip;
    return point;
  }
  const CfgBlock *latch = site.turns == 1 ? nullptr : latchOf(cfg, *site.header, site.blocks);
  if (!latch || uniformity.ofControl(*site.header) != Variation::None ||
      uniformity.ofControl(*latch) != Variation::None ||
      uniformity.ofBranch(*latch) != Variation::None) {
    // Threads of a warp that do not poll in this turn wait for threads that do.
    if (2 * site.cycles >= rules.period)
      point.turns = 1;
    return point;
  }
  point.place = PollPlace::Latch;
  point.statement = latch->instructions.back();
  point.header = cfg.instruction(point.statement).operands[0].symbol;
  if (point.turn.reg != noRegister && uniformity.ofRegister(point.turn.reg) != Variation::None)
    point.turn = {};
  return point;
}

} // namespace

std::vector<PollPoint> planPolls(Cfg &cfg, const PollRules &rules) {
  std::vector<PollSite> sites = findPollSites(cfg, rules);
  if (sites.empty())
    return {};
  ControlDependence dependence(cfg);
  Uniformity uniformity(cfg, dependence);
  std::vector<PollPoint> points;
  for (const PollSite &site : sites)
    points.push_back(pointOf(cfg, uniformity, rules, site));
  return points;
}

} // namespace tally::ptx
