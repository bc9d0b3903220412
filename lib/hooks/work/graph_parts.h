// The state of a graph when it was instantiated: its nodes, with copies of their parameters, so
// that the program may change or destroy the graph. A best-effort launch puts the nodes into the
// queue one after another, in an order that keeps the edges; so its kernels yield like others.
//
// A node that is no kernel is kept as a graph of its own, which CUDA launches: copies of pageable
// memory, fills of wide elements and so on keep their meaning in a graph. A kernel that only the
// driver knows (a library's) is non-preemptible: under `tally run` it is a launch of its own, else
// such a graph. The other kernels yield. Parts never change; an update replaces a part, and queued
// launches still hold the old one.
#ifndef TALLY_LIB_HOOKS_WORK_GRAPH_PARTS_H
#define TALLY_LIB_HOOKS_WORK_GRAPH_PARTS_H

#include "work/foreign_launch.h"
#include "work/kernel_launch.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tally::hooks {

/// Why a graph on a best-effort stream is launched whole.
enum class WholeReason : std::uint8_t {
  None,
  NotSeen,         ///< instantiated before any best-effort work, or not through the hooks
  NotReadable,     ///< CUDA does not tell the graph's or a node's content
  Kernel,          ///< a kernel that cannot be launched alone: its function, shape or arguments
  DeviceUpdatable, ///< a kernel node that kernels may change
  DeviceLaunch,    ///< instantiated for launches by kernels
  EventNode,       ///< records an event or waits for one
  SemaphoreNode,   ///< of external semaphores
  MemoryNode,      ///< allocates or frees
  ConditionalNode, ///< a branch or a loop
  UnknownNode,     ///< has a node of a type that CUDA 13.0 does not have
  AfterHigh,       ///< the last launch was of high priority; only this launch
  AfterAhead,      ///< the last launch went at once, on another stream; only this launch
  SeveralDevices,  ///< the process uses several, and CUDA does not tell a node's
  OtherContext,    ///< its kernels are in another context than best-effort work
  Update,          ///< an update that the hooks could not follow
  Count
};
/// The reason's name in statistics, and a sentence.
std::string_view nameOf(WholeReason reason);
std::string_view textOf(WholeReason reason);

/// One node, instantiated alone. Destroyed when its last launch is over.
class SmallGraph {
public:
  /// Adds the node to a graph.
  using Add = std::function<cudaError_t(cudaGraph_t graph, cudaGraphNode_t *node)>;
  /// Returns nullptr where CUDA refuses the node.
  static std::shared_ptr<const SmallGraph> create(const CudaApi &api, const Add &add);
  ~SmallGraph();
  SmallGraph(const SmallGraph &) = delete;
  SmallGraph &operator=(const SmallGraph &) = delete;

  cudaError_t launch(cudaStream_t stream) const { return api.cudaGraphLaunch(exec, stream); }

private:
  explicit SmallGraph(const CudaApi &api) : api(api) {}

  const CudaApi &api;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
};

/// The work of one node: one of the three, or nothing.
struct GraphPart {
  std::shared_ptr<const KernelLaunch> kernel;
  std::shared_ptr<const ForeignLaunch> foreign; ///< a kernel that only the driver knows
  std::shared_ptr<const SmallGraph> other;
  std::uint64_t otherKernel = 0; ///< the identity of the kernel, if `other` is one
  LaunchShape otherShape;        ///< the shape of that kernel
};

struct GraphSnapshot;

struct SnapshotNode {
  cudaGraphNode_t handle = nullptr; ///< in the graph that was instantiated; only compared
  cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
  std::vector<std::size_t> after; ///< the nodes of the same graph that it depends on
  bool isEnabled = true;
  std::vector<cudaLaunchAttribute> attributes; ///< attributes of a kernel node
  GraphPart part;
  std::unique_ptr<GraphSnapshot> child; ///< snapshot of an embedded graph
};

/// The nodes in the order in which they were added.
struct GraphSnapshot {
  std::vector<SnapshotNode> nodes;

  /// Adds the nodes by their handles, including the nodes of embedded graphs.
  void addTo(std::unordered_map<cudaGraphNode_t, SnapshotNode *> &index);
  /// Takes the handles of the nodes of `older`. Returns false where the two snapshots do not have
  /// the same nodes and edges.
  bool takeHandles(const GraphSnapshot &older);
  void forgetHandles();
  bool hasDisabled() const;
  /// The parts in an order that keeps the edges.
  void addParts(std::vector<GraphPart> &parts) const;
};

/// Converts the driver's parameters of a kernel node to the runtime's; the function is a CUfunction
/// or a CUkernel.
cudaKernelNodeParams runtimeParameters(const CUDA_KERNEL_NODE_PARAMS_v2 &given);

/// The driver's parameters of a kernel node; nothing where the driver does not tell them.
std::optional<CUDA_KERNEL_NODE_PARAMS_v2> driverParameters(const CudaApi &api,
                                                           cudaGraphNode_t node);

using OrderingEvent = std::shared_ptr<CUevent_st>;

/// Reads graphs. Used on a thread of its own, since a failing call leaves an error on the thread.
class GraphReader {
public:
  GraphReader(const CudaApi &api, Registry &registry, int device)
      : api(api), registry(registry), device(device) {}

  /// Returns nullptr where the graph has to be launched whole; `reason()` then has the reason.
  std::unique_ptr<GraphSnapshot> read(cudaGraph_t graph);
  WholeReason reason() const { return why; }

  /// The part of a kernel node with these parameters; empty where the kernel cannot be launched
  /// alone.
  std::shared_ptr<const KernelLaunch>
  kernelPart(const cudaKernelNodeParams &parameters,
             const std::vector<cudaLaunchAttribute> &attributes);

  /// Sets the kernel node's new work. Returns false where the kernel cannot be launched alone.
  bool setByDriver(SnapshotNode &node, const CUDA_KERNEL_NODE_PARAMS_v2 &parameters,
                   bool mayHaveVariants);

private:
  bool refuse(WholeReason reason);
  bool readEdges(GraphSnapshot &snapshot);
  bool readNode(SnapshotNode &node);
  bool readKernel(SnapshotNode &node);
  bool readByDriver(SnapshotNode &node);
  std::shared_ptr<const ForeignLaunch> foreignPart(const CUDA_KERNEL_NODE_PARAMS_v2 &found,
                                                   const SnapshotNode &node);
  bool readAttributes(SnapshotNode &node);
  bool readChild(SnapshotNode &node);
  bool readOther(SnapshotNode &node, const SmallGraph::Add &add);

  const CudaApi &api;
  Registry &registry;
  const int device;
  ForeignKernels foreignKernels;
  WholeReason why = WholeReason::None;
};

} // namespace tally::hooks

#endif
