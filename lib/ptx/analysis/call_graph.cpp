#include "tally/ptx/analysis/call_graph.h"

#include "tally/ptx/analysis/call_sequence.h"
#include "tally/ptx/analysis/module_facts.h"
#include "tally/ptx/analysis/opcodes.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSwitch.h"

#include <algorithm>

namespace tally::ptx {
namespace {

/// Calls `visit` with each name in an initialiser.
void forEachName(const Variable &variable, const std::function<void(std::string_view)> &visit) {
  for (const Initializer &each : variable.initializers)
    if (each.operand)
      forEachOperand(*each.operand, [&](const Operand &operand) {
        if (operand.kind == OperandKind::Symbol)
          visit(operand.symbol);
      });
}

/// Returns the names of the .calltargets of a call through a pointer, or nothing when the call
/// gives a prototype. A label may stand once per scope; all lists with its name are joined.
std::optional<std::vector<std::string_view>> listedTargets(const Function &caller,
                                                           const Instruction &call) {
  if (call.operands.empty() || call.operands.back().kind != OperandKind::Symbol)
    return std::nullopt;
  std::vector<std::string_view> names;
  for (const Statement &statement : caller.body) {
    if (statement.label != call.operands.back().symbol)
      continue;
    if (statement.kind != StatementKind::BranchTargets)
      return std::nullopt;
    names.insert(names.end(), statement.names.begin(), statement.names.end());
  }
  return names.empty() ? std::nullopt : std::optional(std::move(names));
}

} // namespace

bool isHarmlessWithoutBody(std::string_view name) {
  return llvm::StringSwitch<bool>(llvm::StringRef(name.data(), name.size()))
      .Case("vprintf", true)
      .Case("malloc", true)
      .Case("free", true)
      .Case("__assertfail", true)
      .Case("__assert_fail", true)
      // Slots of abstract classes: only an incorrect program calls them.
      .Case("__cxa_pure_virtual", true)
      .Case("__cxa_deleted_virtual", true)
      .Default(false);
}

std::string cloneName(const Function &callee) {
  return std::string(callee.name) + "$tally_virtual";
}

CallGraph::CallGraph(ModuleFacts &moduleFacts) {
  const Module &module = moduleFacts.moduleOf();
  for (const Item &item : module.items()) {
    const Function *function = item.function.get();
    if (function && function->hasBody)
      facts[function] = &moduleFacts.of(*function);
    else if (function && module.function(function->name) == function && !foreign &&
             !isHarmlessWithoutBody(function->name))
      foreign = function->name;
    for (const Variable &variable : item.variables)
      if (variable.isExtern && variable.space != StateSpace::Shared && !foreign)
        foreign = variable.name;
  }
  for (const Alias &alias : module.aliases())
    if (const Function *function = module.function(alias.name))
      aliases[function].push_back(alias.name);
  collectAddressTaken(module);
  for (const Item &item : module.items())
    if (item.function && item.function->hasBody)
      resolve(module, *item.function);
  propagateClones();
}

void CallGraph::noteAddress(const Module &module, std::string_view symbol) {
  const Function *function = module.function(symbol);
  if (function && !function->isEntry)
    addressTaken.insert(function);
}

void CallGraph::collectAddressTaken(const Module &module) {
  auto note = [&](std::string_view symbol) { noteAddress(module, symbol); };
  for (const Item &item : module.items()) {
    for (const Variable &variable : item.variables)
      forEachName(variable, note);
    const Function *function = item.function.get();
    if (!function || !function->hasBody)
      continue;
    for (std::string_view symbol : facts.lookup(function)->symbols)
      note(symbol);
    for (const Statement &statement : function->body)
      for (const Variable &variable : statement.variables)
        forEachName(variable, note);
  }
}

void CallGraph::resolve(const Module &module, const Function &caller) {
  std::vector<std::vector<const Function *>> lists;
  for (const CallSite &call : facts.lookup(&caller)->calls) {
    std::vector<const Function *> &targets = lists.emplace_back();
    if (!call.pointer) {
      if (const Function *callee = module.function(call.callee))
        targets.push_back(callee);
      continue;
    }
    if (auto names = listedTargets(caller, caller.body[call.statement].instruction)) {
      for (std::string_view name : *names)
        if (const Function *callee = module.function(name))
          targets.push_back(callee);
    } else {
      for (const Function *each : addressTaken)
        if (mayTakeArguments(*each, caller, call))
          targets.push_back(each);
    }
  }
  callees[&caller] = std::move(lists);
}

void CallGraph::propagateClones() {
  llvm::DenseMap<const Function *, std::vector<const Function *>> callers;
  for (const auto &[caller, lists] : callees)
    for (const auto &list : lists)
      for (const Function *callee : list)
        callers[callee].push_back(caller);
  for (const auto &[function, each] : facts)
    if (!function->isEntry && !each->gridUses.empty())
      cloned.insert(function);
  for (std::size_t i = 0; i != cloned.size(); ++i)
    for (const Function *caller : callers.lookup(cloned[i]))
      if (!caller->isEntry)
        cloned.insert(caller);
}

const std::vector<const Function *> &CallGraph::targets(const Function &caller,
                                                        const CallSite &call) const {
  const std::vector<CallSite> &sites = factsOf(caller).calls;
  return callees.find(&caller)->second[static_cast<std::size_t>(&call - sites.data())];
}

llvm::SetVector<const Function *> CallGraph::reachable(const Function &from) const {
  llvm::SetVector<const Function *> reached;
  auto visit = [&](const Function &caller) {
    for (const auto &list : callees.find(&caller)->second)
      for (const Function *callee : list)
        if (callee->hasBody)
          reached.insert(callee);
  };
  visit(from);
  for (std::size_t i = 0; i != reached.size(); ++i)
    visit(*reached[i]);
  return reached;
}

} // namespace tally::ptx
