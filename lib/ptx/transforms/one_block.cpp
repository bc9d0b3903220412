#include "one_block.h"

#include "clones.h"
#include "emit.h"
#include "persistent_loop.h"
#include "tally/bundle/abi.h"
#include "tally/ptx/analysis/opening.h"

#include <fmt/format.h>

namespace tally::ptx {
namespace {

constexpr std::string_view oneBlock = "one-block";

/// Thread 0, which has the control word, takes a block and publishes its ids, or that it gets no
/// block.
std::string takeOne(const PassInput &input, emit::IdWords ids, const std::string &asked) {
  std::string labels[] = {"\n$tally_judge:\n\t", "\n$tally_index:\n\t"};
  if (asked.empty())
    labels[0].clear(), labels[1].clear();
  return labels[0] + emit::judge() + "@%tally_yield bra $tally_none;\n\t" + asked + labels[1] +
         emit::loadState() + emit::takeIndex() +
         fmt::format("ld.param.u32 %tally_r3, [$tally_launch+{}];\n"
                     "\tsetp.ge.u32 %tally_yield, %tally_id, %tally_r3;\n"
                     "\t@%tally_yield bra $tally_none;\n\t",
                     offsetof(tally_launch_params, blocks)) +
         emit::publish(ids) + (input.analysis.cloned.empty() ? "" : "\t" + emit::storeExtents());
}

} // namespace

std::vector<Coding> codingsWithOneBlock(const PassInput &input, Kind kind) {
  std::vector<Coding> codings = workerCodings(input, kind);
  if (input.analysis.loop.spends)
    codings.insert(codings.begin(), {oneBlock});
  return codings;
}

bool asksForOneBlock(const PassInput &input) {
  return input.analysis.loop.spends && (input.coding.empty() || input.coding == oneBlock);
}

void writeOneBlock(FunctionEditor &editor, const PassInput &input, Kind kind,
                   const OneBlockParts &parts) {
  emit::beginVariant(editor, input, kind);
  emit::declare(editor, input, !input.analysis.cloned.empty());
  emit::IdWords ids = usedIds(input);
  std::string take = takeOne(input, ids, parts.asked) + "\n$tally_agree:\n\tbar.sync 0;\n\t" +
                     emit::loadPublished(ids) + emit::leaveIfAgreed("ret") + parts.blockStart;
  // The poll may be in flight while the body's opening runs, which must not read the block's id.
  Opening opening = openingOf(input.function, /*mayAskForBlock=*/false);
  bool late = opening.loads != 0;
  editor.insertAtBodyStart(
      parts.declarations + emit::unlessLeaderInTurn(late ? "$tally_polled" : "$tally_agree") +
      emit::loadControl(input.module) + (late ? "\n$tally_polled:\n\t" : take));
  if (late)
    editor.insertBefore(opening.end, "@%tally_other bra $tally_agree;\n\t" + take);
  emit::replaceGridUses(editor, *input.analysis.facts,
                        {[](unsigned, const std::string &) { return std::string(); },
                         emit::loadExtentFromParameters});
  redirectCalls(editor, input.function, input.analysis);
  if (emit::mayReachEnd(input.function))
    editor.insertAtBodyEnd("\n$tally_end:\n\tret;\n");
  editor.insertAtBodyEnd("\n$tally_none:\n"
                         "\tmov.u32 %tally_flag, 1;\n"
                         "\tst.shared.u32 [$tally_block], %tally_flag;\n"
                         "\tbra $tally_agree;\n");
}

} // namespace tally::ptx
