#include "tally/ptx/transforms/slice_pass.h"

#include "emit.h"
#include "tally/bundle/abi.h"

#include <fmt/format.h>

namespace tally::ptx {

std::vector<std::string> SlicePass::run(const PassInput &input) const {
  FunctionEditor editor(input.function);
  emit::beginVariant(editor, input, kind());
  const FunctionFacts &facts = *input.analysis.facts;
  if (!facts.gridUses.empty())
    editor.insertAtBodyStart(emit::declarations(false));
  emit::replaceGridUses(editor, facts, [](unsigned dimension, const std::string &into) {
    char axis = "xyz"[dimension];
    return fmt::format("ld.param.u32 %tally_offset_{0}, [$tally_launch+{1}];\n"
                       "\tmov.u32 {2}, %ctaid.{0};\n"
                       "\tadd.u32 {2}, {2}, %tally_offset_{0};\n\t",
                       axis, offsetof(tally_launch_params, offset) + 4 * dimension, into);
  });
  return {editor.apply()};
}

} // namespace tally::ptx
