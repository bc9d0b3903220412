#include "tally/ptx/analysis/module_facts.h"

#include "tally/ptx/analysis/opcodes.h"

#include "llvm/ADT/STLExtras.h"

#include <cstring>

namespace tally::ptx {

bool isOfModule(const Variable &variable) {
  return variable.space == StateSpace::Global || variable.space == StateSpace::Const ||
         variable.space == StateSpace::Texture;
}

ModuleFacts::ModuleFacts(const Module &module) : module(module) {
  for (const Item &item : module.items())
    for (const Variable &variable : item.variables)
      variables.emplace(variable.name, &variable);
  auto namesVariable = [&](const Operand &operand) {
    bool found = false;
    forEachOperand(operand,
                   [&](const Operand &each) { found |= variable(each.symbol) != nullptr; });
    return found;
  };
  for (const Item &item : module.items())
    for (const Variable &each : item.variables)
      leadsElsewhere |=
          isOfModule(each) &&
          (each.isExtern || each.space == StateSpace::Texture || each.type.ends_with("ref") ||
           item.text.find(".managed") != std::string_view::npos ||
           llvm::any_of(each.initializers, [&](const Initializer &initial) {
             return initial.operand && namesVariable(*initial.operand);
           }));
  // Runs once per module: the search covers all text that the analyses look at.
  constexpr std::string_view stem = "tally_";
  std::string_view rest = module.source();
  while (const void *found = memmem(rest.data(), rest.size(), stem.data(), stem.size())) {
    const char *at = static_cast<const char *>(found);
    if (at != module.source().data() && (at[-1] == '%' || at[-1] == '$'))
      reservedNames.emplace_back(at - 1, stem.size() + 1);
    rest.remove_prefix(static_cast<std::size_t>(at - rest.data()) + 1);
  }
}

std::string_view ModuleFacts::reservedName(std::string_view text) const {
  auto after =
      llvm::lower_bound(reservedNames, text.data(), [](std::string_view name, const char *begin) {
        return name.data() < begin;
      });
  bool inside = after != reservedNames.end() && after->data() < text.data() + text.size();
  return inside ? *after : std::string_view();
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
    place->second = collectFacts(function);
  return place->second;
}

const CallGraph &ModuleFacts::callGraph() {
  if (!graph)
    graph = std::make_unique<CallGraph>(*this);
  return *graph;
}

} // namespace tally::ptx
