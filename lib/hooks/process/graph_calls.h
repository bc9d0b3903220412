// Graphs: the records that the hooks keep when graphs are instantiated and updated, and the graphs'
// launches.
#ifndef TALLY_LIB_HOOKS_PROCESS_GRAPH_CALLS_H
#define TALLY_LIB_HOOKS_PROCESS_GRAPH_CALLS_H

#include "process/call_rules.h"
#include "process/launch_calls.h"
#include "process/served_device.h"
#include "state/captures.h"
#include "state/in_hook.h"
#include "state/registry.h"
#include "state/settings.h"
#include "state/streams.h"
#include "tables/cuda_api.h"
#include "work/graphs.h"

#include <memory>
#include <string>

namespace tally::hooks {

/// Thread-safe.
class GraphCalls {
public:
  GraphCalls(const Settings &settings, StreamTable &streams, Registry &registry,
             const Captures &captures, ServedDevice &served, CallRules &rules,
             LaunchCalls &launches)
      : settings(settings), streams(streams), registry(registry), captures(captures),
        served(served), rules(rules), launches(launches) {}

  /// `call` instantiates `graph` as `*made`.
  template <class Call>
  cudaError_t instantiate(const CudaApi &api, cudaGraphExec_t *made, cudaGraph_t graph,
                          unsigned long long flags, Call call) {
    InHook inside;
    cudaError_t status = call();
    if (status == cudaSuccess)
      instantiated(api, *made, graph, flags);
    return status;
  }
  /// `call` changes a node of the executable graph; `apply` makes the same change in an
  /// ExecutableGraph.
  template <class Call, class Apply>
  cudaError_t change(cudaGraphExec_t handle, Call call, Apply apply) {
    InHook inside;
    cudaError_t status = call();
    std::shared_ptr<ExecutableGraph> known = graphs.find(handle);
    if (status == cudaSuccess && known)
      apply(*known);
    return status;
  }
  /// `call` updates the executable graph from `graph`.
  cudaError_t update(cudaGraphExec_t handle, cudaGraph_t graph, const Run &call);
  cudaError_t destroy(const CudaApi &api, cudaGraphExec_t handle);
  /// Graphs may hold objects of the program that are destroyed with them.
  void holdObjects() { graphs.holdObjects = true; }
  cudaError_t launch(const CudaApi &api, cudaGraphExec_t graph, cudaStream_t handle);
  /// Whether any graph is kept.
  bool any() const { return graphs.any(); }
  /// The device is reset.
  void clear() { graphs.clear(); }
  /// Counts of best-effort graphs, in words; empty without any.
  std::string statistics() const { return graphs.statistics(); }

private:
  void instantiated(const CudaApi &api, cudaGraphExec_t handle, cudaGraph_t graph,
                    unsigned long long flags);
  cudaError_t launchHigh(const CudaApi &api, StreamState &state, cudaGraphExec_t graph,
                         const Run &call);
  void waitForLaunches(const ExecutableGraph &graph);

  const Settings &settings;
  StreamTable &streams;
  Registry &registry;
  const Captures &captures;
  ServedDevice &served;
  CallRules &rules;
  LaunchCalls &launches;
  Graphs graphs;
};

} // namespace tally::hooks

#endif
