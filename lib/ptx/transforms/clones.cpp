#include "clones.h"

#include "emit.h"

#include "tally/ptx/analysis/call_sequence.h"

#include "llvm/ADT/StringRef.h"

#include <fmt/format.h>

#include <utility>

namespace tally::ptx {
namespace {

/// Removes `.visible`, `.weak` and similar directives; the rest of the header stays.
void dropLinkage(FunctionEditor &editor, const Function &function) {
  if (!function.linkage.empty())
    editor.replace({function.linkage.data() - 1, function.linkage.size() + 1}, "");
}

/// Returns the sequence of a call through a pointer as a direct call of `clone`.
std::string directSequence(const Function &caller, const CallSequence &sequence,
                           const CallSite &call, const std::string &clone) {
  const char *begin = caller.body[sequence.begin].text.data();
  const char *end = caller.body[sequence.end].text.end();
  std::span<const Operand> operands = caller.body[call.statement].instruction.operands;
  std::string text(begin, call.pointer->text.data());
  text += clone;
  // The last operand names the prototype; a direct call has none.
  text.append(call.pointer->text.end(), operands[operands.size() - 2].text.end());
  return text.append(operands.back().text.end(), end);
}

/// Inserts before the sequence of a call through a pointer, for each function with a clone, a
/// branch to a copy of the sequence that calls the clone. The copies stand behind the sequence.
void dispatch(FunctionEditor &editor, const Function &caller, const CallSite &call,
              const std::vector<const Function *> &clones, const CallGraph &graph) {
  CallSequence sequence = *callSequenceOf(caller, graph.factsOf(caller), call);
  std::string chain, copies, done = fmt::format("$tally_called_{}", call.statement);
  for (std::size_t i = 0; i != clones.size(); ++i) {
    std::string label = fmt::format("$tally_call_{}_{}", call.statement, i);
    for (std::string_view name : graph.namesOf(*clones[i]))
      chain += fmt::format("mov.u64 %tally_callee, {};\n"
                           "\tsetp.eq.u64 %tally_same, {}, %tally_callee;\n"
                           "\t@%tally_same bra {};\n\t",
                           name, call.pointer->text, label);
    copies += fmt::format("\n\tbra {};\n{}:\n\t{}", done, label,
                          directSequence(caller, sequence, call, cloneName(*clones[i])));
  }
  editor.insertBefore(sequence.begin, chain);
  editor.insertAfter(sequence.end, fmt::format("{}\n{}:", copies, done));
}

void redirectCalls(FunctionEditor &editor, const Function &function, const CallGraph &graph) {
  bool dispatches = false;
  for (const CallSite &call : graph.factsOf(function).calls) {
    std::vector<const Function *> clones;
    for (const Function *target : graph.targets(function, call))
      if (graph.needsClone(*target))
        clones.push_back(target);
    if (clones.empty())
      continue;
    if (!call.pointer) {
      editor.replace(call.callee, cloneName(*clones[0]));
      continue;
    }
    if (!std::exchange(dispatches, true))
      editor.insertAtBodyStart(".reg .b64 %tally_callee;\n\t.reg .pred %tally_same;\n\t");
    dispatch(editor, function, call, clones, graph);
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
    editor.insertAtBodyStart(emit::declarations());
  emit::replaceGridUses(editor, facts,
                        {emit::loadIndexFromShared, emit::loadExtentFromShared, &callee});
  redirectCalls(editor, callee, graph);
  Clone clone{cloneName(callee), {}, editor.apply().str()};
  std::size_t header = callee.header.size() + clone.name.size() - callee.name.size() -
                       (callee.linkage.empty() ? 0 : callee.linkage.size() + 1);
  clone.declaration = llvm::StringRef(clone.definition).take_front(header).rtrim().str() + ";";
  return clone;
}

} // namespace tally::ptx
