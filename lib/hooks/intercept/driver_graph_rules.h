// The rules of calls for graphs. A part of driver_rules.h, which includes it.
#ifndef TALLY_LIB_HOOKS_INTERCEPT_DRIVER_GRAPH_RULES_H
#define TALLY_LIB_HOOKS_INTERCEPT_DRIVER_GRAPH_RULES_H

#include "state/api_calls.h"

namespace tally::hooks {

// Graphs, in a preloaded library. A program that is linked with the hooks reports its graphs
// through the CUDA runtime's calls.

inline bool readsGraphs() { return isForeign() && foreignApi().copyGraphNode != nullptr; }

template <class Real>
CUresult byRule_LaunchGraph(CUstream stream, Real real, CUgraphExec graph, CUstream given) {
  if (readsGraphs() && Hooks::shared().graphs().any())
    return driverStatus(Hooks::shared().launchGraph(foreignApi(), graph, stream));
  return byRule_Launch(stream, real, graph, given);
}

template <class Call>
CUresult instantiateGraph(CUgraphExec *made, CUgraph graph, unsigned long long flags, Call call) {
  if (!readsGraphs())
    return call();
  return driverStatus(Hooks::shared().graphs().instantiate(foreignApi(), made, graph, flags,
                                                           [&] { return runtimeStatus(call()); }));
}
template <class Real>
CUresult byRule_Instantiate(CUstream, Real real, CUgraphExec *made, CUgraph graph,
                            unsigned long long flags) {
  return instantiateGraph(made, graph, flags, [&] { return real(made, graph, flags); });
}
template <class Real>
CUresult byRule_Instantiate(CUstream, Real real, CUgraphExec *made, CUgraph graph,
                            CUgraphNode *failed, char *log, std::size_t bytes) {
  return instantiateGraph(made, graph, 0, [&] { return real(made, graph, failed, log, bytes); });
}
template <class Real>
CUresult byRule_Instantiate(CUstream, Real real, CUgraphExec *made, CUgraph graph,
                            CUDA_GRAPH_INSTANTIATE_PARAMS *how) {
  return instantiateGraph(made, graph, how ? how->flags : 0,
                          [&] { return real(made, graph, how); });
}
template <class Real, class... P>
CUresult byRule_UpdateGraph(CUstream, Real real, CUgraphExec graph, CUgraph by, P... p) {
  auto call = [&] { return real(graph, by, p...); };
  if (!readsGraphs())
    return call();
  return driverStatus(
      Hooks::shared().graphs().update(graph, by, [&] { return runtimeStatus(call()); }));
}
template <class Real> CUresult byRule_DestroyGraph(CUstream, Real real, CUgraphExec graph) {
  return readsGraphs() ? driverStatus(Hooks::shared().graphs().destroy(foreignApi(), graph))
                       : real(graph);
}
/// Applies a change of a node. A change that the hooks cannot follow makes later launches of the
/// graph non-preemptible.
inline void applyTo(ExecutableGraph &graph, CUgraphNode node,
                    const CUDA_KERNEL_NODE_PARAMS_v2 *given) {
  const void *kernel = runtimeParameters(*given).func;
  graph.setKernelByDriver(node, *given, Hooks::shared().loadedImages().knows(kernel));
}
/// The driver's call `adder` makes the node anew.
template <class... P>
void setOther(ExecutableGraph &graph, CUgraphNode node, const char *adder, P... p) {
  using Add = CUresult (*)(CUgraphNode *, CUgraph, const CUgraphNode *, std::size_t, P...);
  graph.setOther(node, [&](cudaGraph_t into, cudaGraphNode_t *made) {
    auto add = reinterpret_cast<Add>(driverEntry(foreignApi(), adder));
    return add ? runtimeStatus(add(made, into, nullptr, 0, p...)) : cudaErrorNotSupported;
  });
}
inline void applyTo(ExecutableGraph &graph, CUgraphNode node, const CUDA_MEMCPY3D_v2 *given,
                    CUcontext context) {
  setOther(graph, node, "cuGraphAddMemcpyNode", given, context);
}
inline void applyTo(ExecutableGraph &graph, CUgraphNode node,
                    const CUDA_MEMSET_NODE_PARAMS_v1 *given, CUcontext context) {
  setOther(graph, node, "cuGraphAddMemsetNode", given, context);
}
inline void applyTo(ExecutableGraph &graph, CUgraphNode node,
                    const CUDA_HOST_NODE_PARAMS_v1 *given) {
  setOther(graph, node, "cuGraphAddHostNode", given);
}
inline void applyTo(ExecutableGraph &graph, CUgraphNode node, CUgraph child) {
  graph.setChild(node, child);
}
inline void applyTo(ExecutableGraph &graph, CUgraphNode node, unsigned isEnabled) {
  graph.setEnabled(node, isEnabled != 0);
}
template <class... P> void applyTo(ExecutableGraph &graph, CUgraphNode, P...) {
  graph.keepWhole(WholeReason::Update);
}
template <class Real, class... P>
CUresult byRule_ChangeGraph(CUstream, Real real, CUgraphExec graph, CUgraphNode node, P... p) {
  auto call = [&] { return real(graph, node, p...); };
  if (!readsGraphs())
    return call();
  return driverStatus(Hooks::shared().graphs().change(
      graph, [&] { return runtimeStatus(call()); },
      [&](ExecutableGraph &known) { applyTo(known, node, p...); }));
}
template <class Real, class... P> CUresult byRule_HoldObjects(CUstream, Real real, P... p) {
  if (readsGraphs())
    Hooks::shared().graphs().holdObjects();
  return real(p...);
}

} // namespace tally::hooks

#endif
