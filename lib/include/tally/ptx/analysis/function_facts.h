// Facts of a function's body that one pass collects, before any data flow.
#ifndef TALLY_PTX_ANALYSIS_FUNCTION_FACTS_H
#define TALLY_PTX_ANALYSIS_FUNCTION_FACTS_H

#include "tally/ptx/analysis/refusal_reasons.h"
#include "tally/ptx/ir/module.h"

#include <array>
#include <optional>
#include <string>
#include <vector>

namespace tally::ptx {

/// A read of %ctaid, %nctaid, %clusterid or %nclusterid in a source operand, alone or inside `{…}`:
/// a component, or the whole vector in mov.v4.
struct GridUse {
  std::uint32_t statement = 0;      ///< index in the function's body
  const Operand *operand = nullptr; ///< the operand to replace
  bool isExtent = false;            ///< %nctaid or %nclusterid
  bool isCluster = false;           ///< counted in clusters: %clusterid or %nclusterid
  unsigned dimension = 0;           ///< 0 x, 1 y, 2 z; 3 for `.w`, which is 0
  bool isHalf = false;              ///< the old 16-bit form, which reads the low half
  bool isVector = false;            ///< `mov.v4` of the whole vector, which has no dimension
  /// For a cluster use: the cluster's extents by .reqnctapercluster; 0 where only the launch sets
  /// them
  std::array<std::uint32_t, 3> clusterExtents{};
};

/// A call; analysis/call_graph.h gives the functions that it may reach.
struct CallSite {
  std::uint32_t statement = 0;
  std::string_view callee;          ///< name of the callee of a direct call
  const Operand *pointer = nullptr; ///< the register that holds the callee of an indirect call
};

/// Facts of one function; statements are indices into its body, in source order.
struct FunctionFacts {
  std::vector<GridUse> gridUses;
  std::vector<Finding> findings;
  std::vector<CallSite> calls;
  std::vector<std::string_view> symbols; ///< named by operands except callees, in order; may repeat
  std::vector<std::uint32_t> blockBarriers; ///< bar.*, barrier.* of the thread block
  std::vector<std::uint32_t> warpSyncs;     ///< isMaskedWarpSync
  std::vector<std::uint32_t> strongReads;   ///< Awaits::Others, see awaited_reads.h
  std::vector<std::uint32_t> plainReads;    ///< Awaits::Aided and Awaits::OwnBlock
  std::vector<std::uint32_t> leaves;        ///< ret and exit
  const Variable *ownVariable = nullptr;    ///< a .global or .const variable declared in the body
  std::optional<std::uint32_t> exit;        ///< the first `exit`
  bool copiesAsync = false;     ///< cp.async, not the bulk forms; cp.async.wait_all waits for it
  bool usesTensorAsync = false; ///< wgmma, tcgen05, tensor copies, which need alignment above 16
  bool orderDependent = false;  ///< see KernelAnalysis::bitwiseStable
  /// The operation of the body's reductions, with the bound of a wrapping one; empty without
  /// reductions. Several operations make the kernel order-dependent.
  std::string reduction;
  bool aidsPolling = false;     ///< isPollingAid, see awaited_reads.h
  bool readsSharedSize = false; ///< %dynamic_smem_size
};

FunctionFacts collectFacts(const Function &function);

/// Returns the extents that .reqnctapercluster demands; zeros without it.
std::array<std::uint32_t, 3> requiredCluster(const Function &function);

} // namespace tally::ptx

#endif
