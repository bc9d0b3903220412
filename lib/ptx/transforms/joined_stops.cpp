#include "joined_stops.h"

#include "codings.h"
#include "emit.h"
#include "tally/ptx/analysis/kernel_analysis.h"

#include "llvm/ADT/STLExtras.h"
#include <fmt/format.h>

#include <algorithm>

namespace tally::ptx {
namespace {

std::vector<std::uint32_t> headsOf(const PassInput &input) {
  std::vector<std::uint32_t> heads;
  for (const SavePoint &point : input.analysis.checkpoint.points)
    heads.push_back(point.statement);
  return heads;
}

} // namespace

JoinedStops::JoinedStops(const PassInput &input)
    : input(input), cfg(input.function), joins(findJoins(cfg, headsOf(input))), liveness(cfg) {}

const CfgBlock &JoinedStops::blockOf(std::uint32_t statement) const {
  while (!cfg.blockOf(statement))
    ++statement;
  return *cfg.blockOf(statement);
}

/// What is live at the join and not at the block of `from`.
std::vector<RegisterId> JoinedStops::madeBetween(std::uint32_t from,
                                                 std::optional<unsigned> join) const {
  if (!join)
    return {};
  std::vector<RegisterId> made = liveness.liveIn(blockOf(joins.joins[*join].statement));
  std::vector<RegisterId> there = liveness.liveIn(blockOf(from));
  llvm::erase_if(made, [&](RegisterId reg) { return std::ranges::binary_search(there, reg); });
  return made;
}

bool JoinedStops::exist() const {
  auto canZeroAll = [&](std::uint32_t from, std::optional<unsigned> join) {
    return llvm::all_of(madeBetween(from, join),
                        [&](RegisterId reg) { return canZero(input.function, reg); });
  };
  const std::vector<SavePoint> &points = input.analysis.checkpoint.points;
  for (std::size_t i = 0; i != points.size(); ++i)
    if (!canZeroAll(points[i].statement, joins.ofHeads[i]))
      return false;
  return !joins.joins.empty() && llvm::all_of(joins.joins, [&](const Join &each) {
    return canZeroAll(each.statement, each.next);
  });
}

std::string JoinedStops::set(bool stopped) {
  return emit::opaqueZero("%tally_r0") +
         fmt::format("setp.{}.u32 %tally_saved, %tally_r0, 0;\n\t", stopped ? "eq" : "ne");
}

std::string JoinedStops::nameOf(std::optional<unsigned> join) {
  return join ? fmt::format("$tally_join_{}", *join + 1) : "$tally_stow";
}

std::string JoinedStops::onTo(std::uint32_t from, std::optional<unsigned> join) const {
  return zero(input.function, madeBetween(from, join)) + fmt::format("bra {};\n", nameOf(join));
}

std::string JoinedStops::stop(unsigned number) const {
  return set(true) +
         onTo(input.analysis.checkpoint.points[number - 1].statement, joins.ofHeads[number - 1]);
}

void JoinedStops::insert(FunctionEditor &editor) const {
  for (unsigned i = 0; i != joins.joins.size(); ++i)
    editor.insertBefore(
        joins.joins[i].statement,
        fmt::format("\n{}:\n\t@%tally_saved bra $tally_past_{};\n\t", nameOf(i), i + 1));
}

std::string JoinedStops::ways() const {
  std::string text;
  for (unsigned i = 0; i != joins.joins.size(); ++i)
    text += fmt::format("\n$tally_past_{}:\n\t", i + 1) +
            onTo(joins.joins[i].statement, joins.joins[i].next);
  return text;
}

} // namespace tally::ptx
