// What a graph was when it was instantiated: its nodes, with copies of what they were given, so
// that the program may change or destroy the graph. A best-effort launch puts the nodes into the
// queue one after another, in an order that keeps the edges; so its kernels yield as others do.
//
// A node that is no kernel is kept as a graph of its own, which CUDA launches: copies of pageable
// memory, fills of wide elements and so on mean what they mean in a graph. A kernel that only the
// driver knows (a library's) runs whole: under `tally run` by a launch of its own, else as such a
// graph; the others yield. Parts never change; an update puts a new part in the place of the
// old one, which queued launches still hold.
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
  NotSeen,         ///< instantiated where nothing was best effort, or not through the hooks
  NotReadable,     ///< CUDA does not tell what the graph, or a node, is
  Kernel,          ///< a kernel that cannot be launched by itself: its function, shape or arguments
  DeviceUpdatable, ///< a kernel node that kernels may change
  DeviceLaunch,    ///< instantiated for launches by kernels
  EventNode,       ///< records an event or waits for one
  SemaphoreNode,   ///< of external semaphores
  MemoryNode,      ///< allocates or frees
  ConditionalNode, ///< a branch or a loop
  UnknownNode,     ///< of a type that CUDA 13.0 does not have
  AfterHigh,       ///< the last launch was of high priority; this once
  AfterAhead,      ///< the last launch went at once, on another stream; this once
  SeveralDevices,  ///< the process uses several, and a node's cannot be told
  OtherContext,    ///< its kernels are in another context than best-effort work goes to
  Update,          ///< an update that could not be followed
  Count
};
/// Its name in statistics, and a sentence.
std::string_view nameOf(WholeReason reason);
std::string_view textOf(WholeReason reason);

/// One node, instantiated by itself. Destroyed when the last launch of it is
/// over.
class SmallGraph {
public:
  /// Adds the node to a graph.
  using Add = std::function<cudaError_t(cudaGraph_t graph, cudaGraphNode_t *node)>;
  /// nullptr where CUDA refuses it.
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

/// What one node does: one of the three, or nothing.
struct GraphPart {
  std::shared_ptr<const KernelLaunch> kernel;
  std::shared_ptr<const ForeignLaunch> foreign; ///< a kernel that only the driver knows
  std::shared_ptr<const SmallGraph> other;
  std::uint64_t otherKernel = 0; ///< what stands for the kernel, if `other` is one
  LaunchShape otherShape;        ///< then
};

struct GraphSnapshot;

struct SnapshotNode {
  cudaGraphNode_t handle = nullptr; ///< in the graph that was instantiated; only compared
  cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
  std::vector<std::size_t> after; ///< the nodes of the same graph that it depends on
  bool isEnabled = true;
  std::vector<cudaLaunchAttribute> attributes; ///< of a kernel node
  GraphPart part;
  std::unique_ptr<GraphSnapshot> child; ///< of a node that embeds a graph
};

/// In the order in which the nodes were added.
struct GraphSnapshot {
  std::vector<SnapshotNode> nodes;

  /// The nodes by their handles, those of embedded graphs too.
  void addTo(std::unordered_map<cudaGraphNode_t, SnapshotNode *> &index);
  /// Takes the handles of nodes from what this stands in for. False where the two do not have the
  /// same nodes and edges.
  bool takeHandles(const GraphSnapshot &older);
  void forgetHandles();
  bool hasDisabled() const;
  /// The parts in an order that keeps the edges.
  void addParts(std::vector<GraphPart> &parts) const;
};

/// What the driver tells of a kernel node, as CUDA's runtime does; the function is a CUfunction or
/// a CUkernel.
cudaKernelNodeParams runtimeParameters(const CUDA_KERNEL_NODE_PARAMS_v2 &given);

/// What the driver tells of a kernel node; nothing where it does not.
std::optional<CUDA_KERNEL_NODE_PARAMS_v2> driverParameters(const CudaApi &api,
                                                           cudaGraphNode_t node);

using OrderingEvent = std::shared_ptr<CUevent_st>;

/// Reads graphs. On a thread of its own, since what fails leaves an error on the thread.
class GraphReader {
public:
  GraphReader(const CudaApi &api, Registry &registry, int device)
      : api(api), registry(registry), device(device) {}

  /// nullptr where the graph has to be launched whole; `reason()` says why then.
  std::unique_ptr<GraphSnapshot> read(cudaGraph_t graph);
  WholeReason reason() const { return why; }

  /// The part of a kernel node with these parameters; empty where it cannot be launched by itself.
  std::shared_ptr<const KernelLaunch>
  kernelPart(const cudaKernelNodeParams &parameters,
             const std::vector<cudaLaunchAttribute> &attributes);

  /// What a kernel node does from now on. False where it cannot be launched by itself.
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
