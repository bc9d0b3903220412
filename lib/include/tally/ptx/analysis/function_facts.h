// What one pass over a function's body shows, before any data flow.
#ifndef TALLY_PTX_ANALYSIS_FUNCTION_FACTS_H
#define TALLY_PTX_ANALYSIS_FUNCTION_FACTS_H

#include "tally/ptx/analysis/refusal_reasons.h"
#include "tally/ptx/ir/module.h"

#include <array>
#include <optional>
#include <string>
#include <vector>

namespace tally::ptx {

/// A read of %ctaid, %nctaid, %clusterid or %nclusterid: in a source operand, by itself or inside
/// `{…}`, a component or, of mov.v4, the whole vector.
struct GridUse {
  std::uint32_t statement = 0;      ///< index in the function's body
  const Operand *operand = nullptr; ///< what to replace
  bool isExtent = false;            ///< %nctaid or %nclusterid
  bool isCluster = false;           ///< counted in clusters: %clusterid or %nclusterid
  unsigned dimension = 0;           ///< 0 x, 1 y, 2 z; 3 for `.w`, which is 0
  bool isHalf = false;              ///< the old 16-bit form, which reads the low half
  bool isVector = false;            ///< `mov.v4` of the whole; no dimension then
  /// Of a cluster use: the cluster's extents by .reqnctapercluster; 0 where only the launch says
  std::array<std::uint32_t, 3> clusterExtents{};
};

/// A call; analysis/call_graph.h says what it may reach.
struct CallSite {
  std::uint32_t statement = 0;
  std::string_view callee;          ///< name of a direct call's
  const Operand *pointer = nullptr; ///< the register that holds the callee of any other
};

/// Facts of one function; statements are indices into its body, in source order.
struct FunctionFacts {
  std::vector<GridUse> gridUses;
  std::vector<Finding> findings;
  std::vector<CallSite> calls;
  std::vector<std::string_view> symbols;    ///< named by operands, a call's callee
                                            ///< aside, in order; may repeat
  std::vector<std::uint32_t> blockBarriers; ///< bar.*, barrier.* of the thread block
  std::vector<std::uint32_t> warpSyncs;     ///< isMaskedWarpSync
  std::vector<std::uint32_t> strongReads;   ///< Awaits::Others, see awaited_reads.h
  std::vector<std::uint32_t> plainReads;    ///< Awaits::Aided and Awaits::OwnBlock
  std::vector<std::uint32_t> leaves;        ///< ret and exit
  const Variable *ownVariable = nullptr;    ///< a .global or .const one declared in the body
  std::optional<std::uint32_t> exit;        ///< the first `exit`
  bool copiesAsync = false;     ///< cp.async, not the bulk forms: waited for by cp.async.wait_all
  bool usesTensorAsync = false; ///< wgmma, tcgen05, tensor copies: they need alignment above 16
  bool orderDependent = false;  ///< see KernelAnalysis::bitwiseStable
  /// The operation of its reductions, with the bound of one that wraps; empty without any. More
  /// than one make it order-dependent.
  std::string reduction;
  bool aidsPolling = false;     ///< isPollingAid, see awaited_reads.h
  bool readsSharedSize = false; ///< %dynamic_smem_size
};

FunctionFacts collectFacts(const Function &function);

/// The extents that .reqnctapercluster demands; zeros without it.
std::array<std::uint32_t, 3> requiredCluster(const Function &function);

} // namespace tally::ptx

#endif
