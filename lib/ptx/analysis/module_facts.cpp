#include "tally/ptx/analysis/module_facts.h"

namespace tally::ptx {

ModuleFacts::ModuleFacts(const Module &module) : module(module) {
  for (const Item &item : module.items())
    for (const Variable &variable : item.variables)
      variables.emplace(variable.name, &variable);
}

const Variable *ModuleFacts::variable(std::string_view name) const {
  auto found = variables.find(name);
  return found == variables.end() ? nullptr : found->second;
}

const Variable *ModuleFacts::sharedVariable(std::string_view name) const {
  const Variable *found = variable(name);
  return found && found->space == StateSpace::Shared ? found : nullptr;
}

const FunctionFacts &ModuleFacts::of(const Function &function) {
  auto [place, isNew] = cache.try_emplace(&function);
  if (isNew && function.hasBody)
    place->second = collectFacts(module, function);
  return place->second;
}

const CallGraph &ModuleFacts::callGraph() {
  if (!graph)
    graph = std::make_unique<CallGraph>(*this);
  return *graph;
}

} // namespace tally::ptx
