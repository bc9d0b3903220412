#include "tally/ptx/transforms/slice_pass.h"

#include "clones.h"
#include "emit.h"
#include "tally/bundle/abi.h"

#include <fmt/format.h>

namespace tally::ptx {

namespace {

/// The virtual %ctaid: the physical %ctaid in the box plus the box's offset.
std::string loadIndex(unsigned dimension, const std::string &into) {
  return fmt::format("ld.param.u32 %tally_offset_{0}, [$tally_launch+{1}];\n"
                     "\tmov.u32 {2}, %ctaid.{0};\n"
                     "\tadd.u32 {2}, {2}, %tally_offset_{0};\n\t",
                     "xyz"[dimension], offsetof(tally_launch_params, offset) + 4 * dimension, into);
}

/// Publishes the ids for clones, before the block runs on.
std::string publishIds() {
  std::string text = emit::unlessLeader("$tally_begin");
  for (unsigned dimension = 0; dimension != 3; ++dimension)
    text += loadIndex(dimension, "%tally_r1") +
            fmt::format("st.shared.u32 [$tally_block+{}], %tally_r1;\n\t", 4 + 4 * dimension);
  return text + emit::storeExtents() + "\n$tally_begin:\n\tbar.sync 0;\n\t";
}

} // namespace

std::vector<EditedText> SlicePass::run(const PassInput &input) const {
  FunctionEditor editor(input.function);
  emit::beginVariant(editor, input, kind());
  const KernelAnalysis &analysis = input.analysis;
  if (!analysis.facts->gridUses.empty() || !analysis.cloned.empty())
    editor.insertAtBodyStart(emit::declarations());
  if (!analysis.cloned.empty())
    editor.insertAtBodyStart(publishIds());
  emit::replaceGridUses(editor, *analysis.facts, {loadIndex, emit::loadExtentFromParameters});
  redirectCalls(editor, input.function, analysis);
  return {editor.apply()};
}

} // namespace tally::ptx
