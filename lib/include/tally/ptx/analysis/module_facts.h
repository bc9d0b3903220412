// What is known of a module's functions and names, collected once for all its kernels.
#ifndef TALLY_PTX_ANALYSIS_MODULE_FACTS_H
#define TALLY_PTX_ANALYSIS_MODULE_FACTS_H

#include "tally/ptx/analysis/call_graph.h"
#include "tally/ptx/analysis/function_facts.h"

#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tally::ptx {

/// Whether a variable is one of global or constant memory, or a texture, sampler or surface.
bool isOfModule(const Variable &variable);

/// Facts of the functions of a module, collected when first asked for. Not thread-safe. References
/// stay valid as long as it lives.
class ModuleFacts {
public:
  explicit ModuleFacts(const Module &module);
  const FunctionFacts &of(const Function &function);
  /// For when the function's body goes.
  void forget(const Function &function) { cache.erase(&function); }
  /// The module-level variable of this name, or null.
  const Variable *variable(std::string_view name) const;
  /// The same, if it is in shared memory.
  const Variable *sharedVariable(std::string_view name) const;
  /// Whether one of the variables of the module in global or constant memory, or a texture, is not
  /// what its declaration says alone: it is external, managed, or begins as an address of another.
  bool variablesLeadElsewhere() const { return leadsElsewhere; }
  /// The first name in `text`, a part of the module's source, that begins as tally's own do; empty
  /// when there is none.
  std::string_view reservedName(std::string_view text) const;
  const CallGraph &callGraph();
  const Module &moduleOf() const { return module; }

private:
  const Module &module;
  std::unordered_map<const Function *, FunctionFacts> cache;
  std::unordered_map<std::string_view, const Variable *> variables;
  std::vector<std::string_view> reservedNames; ///< by place
  bool leadsElsewhere = false;
  std::unique_ptr<CallGraph> graph;
};

} // namespace tally::ptx

#endif
