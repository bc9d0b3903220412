// All that a pass needs to know of a kernel: which kinds are sound, and what to rewrite.
#ifndef TALLY_PTX_ANALYSIS_KERNEL_ANALYSIS_H
#define TALLY_PTX_ANALYSIS_KERNEL_ANALYSIS_H

#include "tally/ptx/analysis/function_facts.h"
#include "tally/ptx/analysis/loop_plan.h"

#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>

namespace tally::ptx {

/// Facts of the functions of a module, collected once each. Not thread-safe.
class ModuleFacts {
public:
  explicit ModuleFacts(const Module &module);
  const FunctionFacts &of(const Function &function);
  /// The module-level shared variable of this name, or null.
  const Variable *sharedVariable(std::string_view name) const;
  const Module &moduleOf() const { return module; }

private:
  const Module &module;
  std::unordered_map<const Function *, FunctionFacts> cache;
  std::unordered_map<std::string_view, const Variable *> shared;
};

/// The verdict of the analyses on one kernel.
struct KernelAnalysis {
  const FunctionFacts *facts = nullptr; ///< of the entry itself
  std::vector<Finding> findings;        ///< the entry's and its callees', by weight and place
  /// The result does not depend on the order in which blocks and threads run, bit for bit, if the
  /// kernel has no data race: no floating-point atomics, no atomics whose result is used, no mix of
  /// reductions, no reads of other blocks' progress, clocks or places.
  bool bitwiseStable = false;
  LoopPlan loop;                       ///< for persistent
  bool copiesAsync = false;            ///< cp.async in the entry or a callee
  std::uint32_t staticSharedBytes = 0; ///< of the entry and what it and its callees name

  /// The finding that refuses `kind`, or null.
  const Finding *refusal(Kind kind) const;
};

/// Analyses `function`, an entry with a body. `kinds` says which kinds are asked for: what only
/// others need is not computed.
KernelAnalysis analyzeKernel(ModuleFacts &modules, const Function &function, KindSet kinds);

} // namespace tally::ptx

#endif
