// Who may call whom in a module, through pointers too, and which callees a variant calls clones of.
#ifndef TALLY_PTX_ANALYSIS_CALL_GRAPH_H
#define TALLY_PTX_ANALYSIS_CALL_GRAPH_H

#include "tally/ptx/analysis/function_facts.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tally::ptx {

class ModuleFacts;

/// The calls of a module. Immutable once built; built in time linear in the module but for calls
/// through pointers, which cost the number of their targets each.
///
/// A call through a pointer reaches the functions whose address the module takes (in an
/// initialiser, or as an operand) and that take its arguments, or, with .calltargets, those listed
/// (PTX ISA 9.0, 11.4.2: "a complete list"). That rests on the module being whole: a pointer to a
/// function of another module cannot come in. So it is not assumed of a module that declares
/// functions or variables of others (isWhole).
class CallGraph {
public:
  explicit CallGraph(ModuleFacts &facts);

  /// What a call may reach: declarations without a body included, entries not. A direct call of a
  /// function that the module does not declare reaches nothing here.
  const std::vector<const Function *> &targets(const Function &caller, const CallSite &call) const;

  /// Functions with bodies that `from` may call, at any depth; itself only when recursive.
  llvm::SetVector<const Function *> reachable(const Function &from) const;

  /// Whether the function, or one that it may call, reads a grid register: a variant must call a
  /// clone of it that reads the virtual ones.
  bool needsClone(const Function &callee) const { return cloned.contains(&callee); }

  /// The function's name and its aliases. The PTX ISA does not say whether all have one address.
  std::vector<std::string_view> namesOf(const Function &function) const {
    std::vector<std::string_view> names = aliases.lookup(&function);
    names.insert(names.begin(), function.name);
    return names;
  }

  const FunctionFacts &factsOf(const Function &function) const { return *facts.lookup(&function); }

  /// False when a name of the module is defined elsewhere (functions that the driver supplies
  /// aside): it will be linked with other modules. Then the text that declares the name.
  bool isWhole() const { return !foreign; }
  std::optional<std::string_view> foreignName() const { return foreign; }

private:
  void collectAddressTaken(const Module &module);
  void noteAddress(const Module &module, std::string_view symbol);
  void resolve(const Module &module, const Function &caller);
  void propagateClones();

  llvm::DenseMap<const Function *, const FunctionFacts *> facts;
  llvm::DenseMap<const Function *, std::vector<std::string_view>> aliases;
  /// By caller, one list per CallSite of its facts.
  llvm::DenseMap<const Function *, std::vector<std::vector<const Function *>>> callees;
  llvm::SetVector<const Function *> addressTaken;
  llvm::SetVector<const Function *> cloned;
  std::optional<std::string_view> foreign;
};

/// Functions that the driver or the toolchain supplies: they read no grid register, hold no block
/// barrier, wait for no other block and come back, or end the launch with an error. (What malloc
/// returns depends on other blocks: a loop may wait by it.)
bool isHarmlessWithoutBody(std::string_view name);

/// The clone's name: `<callee>$tally_virtual`.
std::string cloneName(const Function &callee);

} // namespace tally::ptx

#endif
