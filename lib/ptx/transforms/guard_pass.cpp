#include "tally/ptx/transforms/guard_pass.h"

#include "emit.h"
#include "tally/bundle/abi.h"

#include <fmt/format.h>

namespace tally::ptx {
namespace {

/// %tally_id = x + nx * (y + ny * z), all physical.
constexpr const char *physicalLinearId =
    "mov.u32 %tally_r1, %ctaid.z;\n"
    "\tmov.u32 %tally_r2, %nctaid.y;\n"
    "\tmov.u32 %tally_r3, %ctaid.y;\n"
    "\tmad.lo.u32 %tally_r1, %tally_r1, %tally_r2, %tally_r3;\n"
    "\tmov.u32 %tally_r2, %nctaid.x;\n"
    "\tmov.u32 %tally_r3, %ctaid.x;\n"
    "\tmad.lo.u32 %tally_id, %tally_r1, %tally_r2, %tally_r3;\n\t";

/// The flag of the block: 1 when it leaves.
constexpr const char *publishYield = "selp.u32 %tally_flag, 1, 0, %tally_yield;\n"
                                     "\tst.shared.u32 [$tally_block], %tally_flag;\n\t";

std::string firstEntry(const PassInput &input) {
  FunctionEditor editor(input.function);
  emit::beginVariant(editor, input, Kind::Guard);
  editor.insertAtBodyStart(
      emit::declarations(true) + emit::unlessLeader("$tally_agree") + emit::poll(input.module) +
      publishYield + "@!%tally_yield bra $tally_agree;\n\t" + physicalLinearId +
      emit::appendToList("%tally_id") + "\n$tally_agree:\n\t" + emit::agreeOrLeave());
  return editor.apply();
}

std::string resumeEntry(const PassInput &input) {
  FunctionEditor editor(input.function);
  emit::beginVariant(editor, input, Kind::Guard, true);
  std::string virtualId = fmt::format("ld.param.u64 %tally_d2, [$tally_launch+{}];\n"
                                      "\tcvta.to.global.u64 %tally_d2, %tally_d2;\n"
                                      "\tmov.u32 %tally_r1, %ctaid.x;\n"
                                      "\tmul.wide.u32 %tally_d3, %tally_r1, 4;\n"
                                      "\tadd.s64 %tally_d2, %tally_d2, %tally_d3;\n"
                                      "\tld.global.u32 %tally_id, [%tally_d2];\n\t",
                                      offsetof(tally_launch_params, list_in));
  editor.insertAtBodyStart(
      emit::declarations(true) + emit::unlessLeader("$tally_agree") + emit::poll(input.module) +
      publishYield + virtualId + "@%tally_yield bra $tally_list;\n\t" + emit::decodeToShared() +
      "bra.uni $tally_agree;\n\n$tally_list:\n\t" + emit::appendToList("%tally_id") +
      "\n$tally_agree:\n\t" + emit::agreeOrLeave());
  emit::replaceGridUses(editor, *input.analysis.facts, emit::loadIndexFromShared);
  return editor.apply();
}

} // namespace

std::vector<std::string> GuardPass::run(const PassInput &input) const {
  return {firstEntry(input), resumeEntry(input)};
}

} // namespace tally::ptx
