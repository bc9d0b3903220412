#include "clones.h"

#include "emit.h"

#include "llvm/ADT/StringRef.h"

namespace tally::ptx {
namespace {

/// Without `.visible`, `.weak` and their kin; the rest of the header stays.
void dropLinkage(FunctionEditor &editor, const Function &function) {
  if (!function.linkage.empty())
    editor.replace({function.linkage.data() - 1, function.linkage.size() + 1}, "");
}

void redirectCalls(FunctionEditor &editor, const Function &function, const CallGraph &graph) {
  for (const CallSite &call : graph.factsOf(function).calls) {
    const std::vector<const Function *> &targets = graph.targets(function, call);
    if (call.pointer || targets.empty() || !graph.needsClone(*targets[0]))
      continue;
    editor.replace(call.callee, cloneName(*targets[0]));
  }
}

} // namespace

void redirectCalls(FunctionEditor &editor, const Function &function,
                   const KernelAnalysis &analysis) {
  if (analysis.calls)
    redirectCalls(editor, function, *analysis.calls);
}

Clone cloneOf(const Function &callee, const CallGraph &graph) {
  FunctionEditor editor(callee);
  editor.rename(cloneName(callee));
  dropLinkage(editor, callee);
  const FunctionFacts &facts = graph.factsOf(callee);
  if (!facts.gridUses.empty())
    editor.insertAtBodyStart(emit::declarations(false));
  emit::replaceGridUses(editor, facts, {emit::loadIndexFromShared, emit::loadExtentFromShared});
  redirectCalls(editor, callee, graph);
  Clone clone{cloneName(callee), {}, editor.apply()};
  std::size_t header = callee.header.size() + clone.name.size() - callee.name.size() -
                       (callee.linkage.empty() ? 0 : callee.linkage.size() + 1);
  clone.declaration = llvm::StringRef(clone.definition).take_front(header).rtrim().str() + ";";
  return clone;
}

} // namespace tally::ptx
