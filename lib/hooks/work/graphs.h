// The program's executable graphs, beside CUDA's own: what each does when it is launched on a
// best-effort stream.
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
  /// What a launch puts into the queue, in order.
  using Parts = std::vector<GraphPart>;

  ExecutableGraph(const CudaApi &api, Registry &registry, int device)
      : api(api), registry(registry), device(device) {}
  ~ExecutableGraph();
  ExecutableGraph(const ExecutableGraph &) = delete;
  ExecutableGraph &operator=(const ExecutableGraph &) = delete;

  /// It does what `graph` says now. `inContext`: the thread's CUcontext, where that is asked about.
  void read(cudaGraph_t graph, void *inContext = nullptr);
  void keepWhole(WholeReason reason);
  /// What a best-effort launch comes to.
  struct Launch {
    std::shared_ptr<const Parts> parts; ///< nullptr: it has to be launched whole
    WholeReason reason = WholeReason::None;
    OrderingEvent behind; ///< that all of it comes after; may be nullptr
  };
  Launch launch(int onDevice, void *inContext, const StreamState &stream);
  /// It was launched on a best-effort stream at once (run_ahead.h), whole.
  void launchedAhead(const StreamState &stream);

  // CUDA has taken the update of a node that the program names.

  void setKernel(cudaGraphNode_t node, const cudaKernelNodeParams &parameters);
  void setKernelByDriver(cudaGraphNode_t node, const CUDA_KERNEL_NODE_PARAMS_v2 &parameters,
                         bool mayHaveVariants);
  /// `add` makes a node with the new parameters.
  void setOther(cudaGraphNode_t node, const SmallGraph::Add &add);
  void setChild(cudaGraphNode_t node, cudaGraph_t graph);
  void setEnabled(cudaGraphNode_t node, bool isEnabled);
  /// All nodes at once. `graph` has the same nodes and edges. `isAhead`: its launches go at once.
  void update(cudaGraph_t graph, bool isAhead);

  /// Keeps account of what its launches of high priority take of an SM. `graph`: what it does now.
  void watchUse(cudaGraph_t graph);
  runtime::Headroom::Asked useIn(const runtime::Headroom &headroom);

  /// It was launched on a stream of high priority. CUDA orders the launches of one executable
  /// graph, so what is launched as best effort next comes behind that.
  void launchedHigh(cudaStream_t stream);

  /// The ticket of its last best-effort launch's last part, or of what came behind that. A
  /// best-effort launch holds `launching` from reading it to writing it.
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
  void *context = nullptr; // that its kernels are in; nullptr: not asked about
  const int device;
  std::mutex mutex; // what follows
  std::unique_ptr<GraphSnapshot> snapshot;
  std::unordered_map<cudaGraphNode_t, SnapshotNode *> index; ///< of the snapshot; empty: to be made
  WholeReason why = WholeReason::None;
  std::shared_ptr<const Parts> ready; ///< of the snapshot as it is; nullptr: to be made
  bool wasLaunched = false;           ///< as best effort
  bool wasHigh = false;      ///< without an event behind it: then `highEvent` was not needed
  bool highRecorded = false; ///< `highEvent` stands behind a launch of high priority
  OrderingEvent highEvent;
  std::optional<GraphUse>
      use; ///< where it is watched; of nodes that are changed, all that they were
  std::optional<runtime::Headroom::Asked> asked; ///< about that
  const StreamState *aheadOn = nullptr;          ///< of the last launch that went at once, if any
  std::uint32_t aheadUse = 0;                    ///< StreamState::uses then
  runtime::Nanoseconds updatedAt{0};             ///< all nodes
  bool disabledUnknown = false;                  ///< which nodes are disabled is not known any more
  /// Of an update before the first best-effort launch, read only then: a graph of high priority
  /// pays for no more than that copy.
  cudaGraph_t copy = nullptr;
};

/// By handle. Thread-safe.
class Graphs {
public:
  void add(cudaGraphExec_t handle, std::shared_ptr<ExecutableGraph> graph);
  bool any() const { return count.load(std::memory_order_acquire) != 0; }
  std::shared_ptr<ExecutableGraph> find(cudaGraphExec_t handle);
  std::shared_ptr<ExecutableGraph> remove(cudaGraphExec_t handle);
  /// The device is reset.
  void clear();

  /// A best-effort launch; of a whole one the reason is said once on standard error.
  void launched(WholeReason reason);
  /// "3 in parts, 2 whole (event-node 1, kernel 1)"; empty where there was no best-effort launch.
  std::string statistics() const;

  /// Whether graphs may hold objects that are destroyed with them.
  std::atomic<bool> holdObjects{false};

private:
  std::mutex mutex;
  std::unordered_map<cudaGraphExec_t, std::shared_ptr<ExecutableGraph>> byHandle;
  std::atomic<std::size_t> count{0}; ///< of them
  std::array<std::atomic<std::uint64_t>, static_cast<std::size_t>(WholeReason::Count)> launches{};
};

} // namespace tally::hooks

#endif
