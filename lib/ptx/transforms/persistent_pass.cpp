#include "tally/ptx/transforms/persistent_pass.h"

#include "worker_loop.h"

namespace tally::ptx {

std::vector<Coding> PersistentPass::codings(const PassInput &input) const {
  return workerCodings(input);
}

std::vector<std::string> PersistentPass::run(const PassInput &input) const {
  FunctionEditor editor(input.function);
  writeWorkers(editor, input, kind(), {{}, {}, leaveIfSurplus(input)});
  return {editor.apply()};
}

} // namespace tally::ptx
