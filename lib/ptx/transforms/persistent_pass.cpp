#include "tally/ptx/transforms/persistent_pass.h"

#include "one_block.h"
#include "persistent_loop.h"

namespace tally::ptx {

std::vector<Coding> PersistentPass::codings(const PassInput &input) const {
  return codingsWithOneBlock(input, kind());
}

std::vector<EditedText> PersistentPass::run(const PassInput &input) const {
  FunctionEditor editor(input.function);
  if (asksForOneBlock(input))
    writeOneBlock(editor, input, kind(), {});
  else
    writeWorkers(editor, input, kind(), {{}, {}, leaveIfSurplus(input), {}});
  return {editor.apply()};
}

} // namespace tally::ptx
