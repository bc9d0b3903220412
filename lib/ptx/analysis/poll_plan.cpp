#include "tally/ptx/analysis/poll_plan.h"

#include "tally/ptx/analysis/opcodes.h"
#include "tally/ptx/analysis/uniformity.h"

#include "llvm/ADT/STLExtras.h"

namespace tally::ptx {
namespace {

/// The statement behind the label that opens the block of `first`, its first instruction, and
/// behind the pragmas that belong to the label.
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

/// The one block that branches back to the header of `site`, by a plain branch with its label; or
/// null.
const CfgBlock *latchOf(const Cfg &cfg, const PollSite &site) {
  const CfgBlock *latch = nullptr;
  for (const CfgBlock *before : site.header->predecessors) {
    if (!llvm::is_contained(site.blocks, before))
      continue;
    if (latch)
      return nullptr;
    latch = before;
  }
  const Instruction *branch = latch ? cfg.terminator(*latch) : nullptr;
  if (!branch || branch->opcode != "bra" || branch->operands.size() != 1 ||
      branch->operands[0].kind != OperandKind::Symbol)
    return nullptr;
  // Falling through to the header is no branch to it.
  bool twoWays = branch->guard && latch->successors.size() != 2;
  std::string_view label = branch->operands[0].symbol;
  const Function &function = cfg.function();
  std::uint32_t at = site.statement;
  while (at > 1 && function.body[at - 1].kind != StatementKind::Instruction) {
    --at;
    if (function.body[at].kind == StatementKind::Label && function.body[at].label == label)
      return twoWays ? nullptr : latch;
  }
  return nullptr;
}

PollPoint pointOf(const Cfg &cfg, const Uniformity &uniformity, const PollSite &site) {
  PollPoint point;
  point.statement = behindLabel(cfg.function(), site.statement);
  point.turns = site.turns;
  point.cycles = site.cycles;
  point.turn = site.turn;
  const CfgBlock *latch = site.turns == 1 ? nullptr : latchOf(cfg, site);
  if (!latch || uniformity.ofControl(*site.header) != Variation::None ||
      uniformity.ofControl(*latch) != Variation::None ||
      uniformity.ofBranch(*latch) != Variation::None)
    return point;
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
    points.push_back(pointOf(cfg, uniformity, site));
  return points;
}

} // namespace tally::ptx
