// The hooks' records of the program's executable graphs: the work of each graph when it is launched
// on a best-effort stream.
#ifndef TALLY_LIB_HOOKS_WORK_GRAPHS_H
#define TALLY_LIB_HOOKS_WORK_GRAPHS_H

#include "work/graph_parts.h"
#include "work/kernel_use.h"

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace tally::hooks {

/// One executable graph. Thread-safe.
class ExecutableGraph {
public:
  /// The parts that a launch puts into the queue, in order.
  using Parts = std::vector<GraphPart>;

  ExecutableGraph(const CudaApi &api, Registry &registry, int device)
      : api(api), registry(registry), device(device) {}
  ~ExecutableGraph();
  ExecutableGraph(const ExecutableGraph &) = delete;
  ExecutableGraph &operator=(const ExecutableGraph &) = delete;

  /// Reads the graph's work from `graph`. `inContext`: the thread's CUcontext, where it was asked
  /// for.
  void read(cudaGraph_t graph, void *inContext = nullptr);
  void keepWhole(WholeReason reason);
  /// The result of a best-effort launch.
  struct Launch {
    std::shared_ptr<const Parts> parts; ///< nullptr: the graph has to be launched whole
    WholeReason reason = WholeReason::None;
    OrderingEvent behind; ///< all parts come after this event; may be nullptr
  };
  Launch launch(int onDevice, void *inContext, const StreamState &stream);
  /// The graph was launched whole on a best-effort stream, at once (run_ahead.h).
  void launchedAhead(const StreamState &stream);

  // CUDA has accepted an update of one node that the program names.

  void setKernel(cudaGraphNode_t node, const cudaKernelNodeParams &parameters);
  void setKernelByDriver(cudaGraphNode_t node, const CUDA_KERNEL_NODE_PARAMS_v2 &parameters,
                         bool mayHaveVariants);
  /// `add` makes a node with the new parameters.
  void setOther(cudaGraphNode_t node, const SmallGraph::Add &add);
  void setChild(cudaGraphNode_t node, cudaGraph_t graph);
  void setEnabled(cudaGraphNode_t node, bool isEnabled);
  /// Updates all nodes at once. `graph` has the same nodes and edges. `isAhead`: the graph's
  /// launches go at once.
  void update(cudaGraph_t graph, bool isAhead);

  /// Begins to track the resources that the graph's high-priority launches take of an SM. `graph`:
  /// its current content.
  void watchUse(cudaGraph_t graph);
  runtime::Headroom::Asked useIn(const runtime::Headroom &headroom);

  /// The graph was launched on a high-priority stream. CUDA orders the launches of one executable
  /// graph, so its next best-effort launch comes behind this one.
  void launchedHigh(cudaStream_t stream);

  /// The ticket of the last part of the last best-effort launch, or of a later operation behind
  /// that launch. A best-effort launch holds `launching` from reading the ticket to writing it.
  std::atomic<std::uint64_t> lastTicket{0};
  std::mutex launching;

private:
  template <class Change> void change(Change apply);
  template <class Questions> void ask(Questions questions);
  template <class Add> void addUse(Add add);
  void readNow(cudaGraph_t graph);
  void readUse(cudaGraph_t graph);
  void readCopy();
  void giveUp(WholeReason reason);
  void dropCopy();
  SnapshotNode *find(cudaGraphNode_t node);
  bool isHighOnly() const { return wasHigh && !wasLaunched; }

  const CudaApi &api;
  Registry &registry;
  void *context = nullptr; // context of its kernels; nullptr: not asked for
  const int device;
  std::mutex mutex; // guards the members below
  std::unique_ptr<GraphSnapshot> snapshot;
  /// Index of the snapshot; empty: not made.
  std::unordered_map<cudaGraphNode_t, SnapshotNode *> index;
  WholeReason why = WholeReason::None;
  std::shared_ptr<const Parts> ready; ///< parts of the current snapshot; nullptr: not made yet
  bool wasLaunched = false;           ///< as best effort
  bool wasHigh = false;      ///< last launched on a high-priority stream, without `highEvent`
  bool highRecorded = false; ///< `highEvent` stands behind a high-priority launch
  OrderingEvent highEvent;
  std::optional<GraphUse>
      use; ///< where use is tracked; for changed nodes also all of their earlier kernels
  std::optional<runtime::Headroom::Asked> asked; ///< the headroom that `use` asks for
  const StreamState *aheadOn = nullptr; ///< stream of the last launch that went at once, if any
  std::uint32_t aheadUse = 0;           ///< StreamState::uses then
  runtime::Nanoseconds updatedAt{0};    ///< of all nodes
  bool disabledUnknown = false;         ///< the hooks do not know which nodes are disabled
  /// A copy of the graph of an update before the first best-effort launch, read only at that
  /// launch: a high-priority graph pays only for the copy.
  cudaGraph_t copy = nullptr;
};

/// The executable graphs, by handle. Thread-safe.
class Graphs {
public:
  void add(cudaGraphExec_t handle, std::shared_ptr<ExecutableGraph> graph);
  bool any() const { return count.load(std::memory_order_acquire) != 0; }
  std::shared_ptr<ExecutableGraph> find(cudaGraphExec_t handle);
  std::shared_ptr<ExecutableGraph> remove(cudaGraphExec_t handle);
  /// The device is reset.
  void clear();

  /// Counts a best-effort launch; prints the reason for a whole launch once on standard error.
  void launched(WholeReason reason);
  /// "3 in parts, 2 whole (event-node 1, kernel 1)"; empty where there was no best-effort launch.
  std::string statistics() const;

  /// Whether graphs may hold objects that are destroyed with them.
  std::atomic<bool> holdObjects{false};

private:
  std::mutex mutex;
  std::unordered_map<cudaGraphExec_t, std::shared_ptr<ExecutableGraph>> byHandle;
  std::atomic<std::size_t> count{0}; ///< size of `byHandle`
  std::array<std::atomic<std::uint64_t>, static_cast<std::size_t>(WholeReason::Count)> launches{};
};

} // namespace tally::hooks

#endif
