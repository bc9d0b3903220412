// Facts of a module's functions and names, collected once for all its kernels.
#ifndef TALLY_PTX_ANALYSIS_MODULE_FACTS_H
#define TALLY_PTX_ANALYSIS_MODULE_FACTS_H

#include "tally/ptx/analysis/call_graph.h"
#include "tally/ptx/analysis/function_facts.h"

#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tally::ptx {

/// Whether a variable is in global or constant memory, or is a texture, sampler or surface.
bool isOfModule(const Variable &variable);

/// Facts of a module's functions, collected on first use. Not thread-safe. References stay valid as
/// long as the object lives.
class ModuleFacts {
public:
  explicit ModuleFacts(const Module &module);
  const FunctionFacts &of(const Function &function);
  /// Drops the function's facts; called before the function's body is released.
  void forget(const Function &function) { cache.erase(&function); }
  /// Returns the module-level variable with this name, or null.
  const Variable *variable(std::string_view name) const;
  /// Returns the module-level variable with this name if it is in shared memory, else null.
  const Variable *sharedVariable(std::string_view name) const;
  /// Whether the declaration of some variable of the module (global, constant, texture) does not
  /// give its whole content: the variable is external, managed, or initialised with another's
  /// address.
  bool variablesLeadElsewhere() const { return leadsElsewhere; }
  /// Returns the first name in `text`, a part of the module's source, with the prefix of tally's
  /// own names; empty when there is none.
  std::string_view reservedName(std::string_view text) const;
  const CallGraph &callGraph();
  const Module &moduleOf() const { return module; }

private:
  const Module &module;
  std::unordered_map<const Function *, FunctionFacts> cache;
  std::unordered_map<std::string_view, const Variable *> variables;
  std::vector<std::string_view> reservedNames; ///< names by position in the text
  bool leadsElsewhere = false;
  std::unique_ptr<CallGraph> graph;
};

} // namespace tally::ptx

#endif
