// The calls of a module, through pointers too, and the callees that a variant replaces by clones.
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

/// The calls of a module. Immutable once built. Construction takes time linear in the module, plus
/// the number of targets for each call through a pointer.
///
/// A call through a pointer reaches the functions whose address the module takes (in an
/// initialiser, or as an operand) and that accept its arguments, or, with .calltargets, the listed
/// functions (PTX ISA 9.0, 11.4.2: "a complete list"). This holds only for a whole module, into
/// which no pointer to a function of another module can come. So it is not assumed of a module that
/// declares functions or variables of others (isWhole).
class CallGraph {
public:
  explicit CallGraph(ModuleFacts &facts);

  /// Returns the functions that a call may reach: declarations without a body included, entries
  /// not. A direct call of a function that the module does not declare reaches nothing here.
  const std::vector<const Function *> &targets(const Function &caller, const CallSite &call) const;

  /// Returns the functions with bodies that `from` may call, at any depth; `from` itself only when
  /// it is recursive.
  llvm::SetVector<const Function *> reachable(const Function &from) const;

  /// Whether the function, or a function that it may call, reads a grid register. A variant must
  /// then call a clone that reads the virtual registers.
  bool needsClone(const Function &callee) const { return cloned.contains(&callee); }

  /// The function's name and its aliases. The PTX ISA leaves open whether all have one address.
  std::vector<std::string_view> namesOf(const Function &function) const {
    std::vector<std::string_view> names = aliases.lookup(&function);
    names.insert(names.begin(), function.name);
    return names;
  }

  const FunctionFacts &factsOf(const Function &function) const { return *facts.lookup(&function); }

  /// False when another module defines a name of this module (except functions that the driver
  /// supplies): it will be linked with other modules. foreignName() is then the text that declares
  /// the name.
  bool isWhole() const { return !foreign; }
  std::optional<std::string_view> foreignName() const { return foreign; }

private:
  void collectAddressTaken(const Module &module);
  void noteAddress(const Module &module, std::string_view symbol);
  void resolve(const Module &module, const Function &caller);
  void propagateClones();

  llvm::DenseMap<const Function *, const FunctionFacts *> facts;
  llvm::DenseMap<const Function *, std::vector<std::string_view>> aliases;
  /// Callees by caller, one list for each CallSite in the caller's facts.
  llvm::DenseMap<const Function *, std::vector<std::vector<const Function *>>> callees;
  llvm::SetVector<const Function *> addressTaken;
  llvm::SetVector<const Function *> cloned;
  std::optional<std::string_view> foreign;
};

/// Whether the driver or the toolchain supplies the function. Such a function reads no grid
/// register, holds no block barrier, waits for no other block, and returns or ends the launch with
/// an error. (The result of malloc depends on other blocks: a loop may wait on it.)
bool isHarmlessWithoutBody(std::string_view name);

/// The clone's name: `<callee>$tally_virtual`.
std::string cloneName(const Function &callee);

} // namespace tally::ptx

#endif
