// What one pass over a function's body shows, before any data flow.
#ifndef TALLY_PTX_ANALYSIS_FUNCTION_FACTS_H
#define TALLY_PTX_ANALYSIS_FUNCTION_FACTS_H

#include "tally/ptx/analysis/reasons.h"
#include "tally/ptx/ir/module.h"

#include <optional>
#include <vector>

namespace tally::ptx {

/// A read of %ctaid or %nctaid as a scalar 32-bit source operand.
struct GridUse {
  std::uint32_t statement = 0;      ///< index in the function's body
  const Operand *operand = nullptr; ///< what to replace
  bool isExtent = false;            ///< %nctaid, not %ctaid
  unsigned dimension = 0;           ///< 0 x, 1 y, 2 z
};

/// A direct call.
struct CallSite {
  std::uint32_t statement = 0;
  std::string_view callee;
};

/// Facts of one function; statements are indices into its body, in source order.
struct FunctionFacts {
  std::vector<GridUse> gridUses;
  std::vector<Finding> findings;
  std::vector<CallSite> calls;
  std::vector<std::string_view> symbols;    ///< named by operands, in order; may repeat
  std::vector<std::uint32_t> blockBarriers; ///< bar.*, barrier.* of the thread block
  std::vector<std::uint32_t> warpSyncs;     ///< isMaskedWarpSync
  std::vector<std::uint32_t> strongReads;   ///< see isStrongRead
  std::vector<std::uint32_t> plainReads;    ///< other loads of memory that blocks share
  std::vector<std::uint32_t> leaves;        ///< ret and exit
  std::optional<std::uint32_t> exit;        ///< the first `exit`
  bool copiesAsync = false;     ///< cp.async, not the bulk forms: waited for by cp.async.wait_all
  bool usesTensorAsync = false; ///< wgmma, tcgen05, tensor copies: they need alignment above 16
  bool orderDependent = false;  ///< see KernelAnalysis::bitwiseStable
  bool aidsPolling = false;     ///< see isPollingAid
};

FunctionFacts collectFacts(const Module &module, const Function &function);

/// Whether `instruction` may see what another thread block writes while it runs: a volatile,
/// relaxed, acquire, mmio, .cv or .cg load or an atomic with a result, unless its space is shared,
/// local, param or const. A generic address counts.
bool isStrongRead(const Instruction &instruction);

/// A fence that orders against other blocks, or a nap: a plain load beside it may be a poll.
bool isPollingAid(const Instruction &instruction);

} // namespace tally::ptx

#endif
