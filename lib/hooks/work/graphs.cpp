#include "work/graphs.h"

#include "state/counts_in_words.h"

#include "state/in_hook.h"
#include "state/settings.h"

#include <thread>
#include <utility>

namespace tally::hooks {

namespace {

/// A graph that is updated at least this often need not be read at each update.
constexpr std::chrono::milliseconds frequentUpdates{100};

} // namespace

ExecutableGraph::~ExecutableGraph() { dropCopy(); }

void ExecutableGraph::dropCopy() {
  InHook inside;
  if (copy)
    api.cudaGraphDestroy(copy);
  copy = nullptr;
}

/// A failing query leaves no error behind that the application would find, and captures do not
/// forbid the queries.
template <class Questions> void ExecutableGraph::ask(Questions questions) {
  auto quietly = [&] {
    InHook inside;
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    api.cudaThreadExchangeStreamCaptureMode(&mode);
    questions();
    api.cudaThreadExchangeStreamCaptureMode(&mode);
  };
  InHook inside;
  int current = 0;
  if (api.cudaPeekAtLastError() == cudaSuccess && api.cudaGetDevice(&current) == cudaSuccess &&
      current == device) {
    quietly();
    api.cudaGetLastError();
    return;
  }
  std::thread([&] {
    InHook insideToo;
    api.cudaSetDevice(device);
    quietly();
  }).join();
}

void ExecutableGraph::giveUp(WholeReason reason) {
  disabledUnknown |= snapshot && snapshot->hasDisabled();
  snapshot.reset();
  index.clear();
  ready.reset();
  dropCopy();
  why = reason;
}

void ExecutableGraph::readNow(cudaGraph_t graph) {
  ask([&] {
    GraphReader reader(api, registry, device);
    std::unique_ptr<GraphSnapshot> found = reader.read(graph);
    ready.reset();
    why = reader.reason();
    snapshot = std::move(found);
    index.clear();
  });
}

void ExecutableGraph::read(cudaGraph_t graph, void *inContext) {
  std::unique_lock lock(mutex);
  context = inContext;
  readNow(graph);
}

void ExecutableGraph::readUse(cudaGraph_t graph) {
  use.emplace(api, registry, device);
  asked.reset();
  ask([&] { use->addGraph(graph); });
}

void ExecutableGraph::watchUse(cudaGraph_t graph) {
  std::unique_lock lock(mutex);
  readUse(graph);
}

runtime::Headroom::Asked ExecutableGraph::useIn(const runtime::Headroom &headroom) {
  std::unique_lock lock(mutex);
  runtime::Headroom::Asked unknown;
  unknown.known = false;
  if (!asked)
    asked = use ? use->askedOf(headroom) : unknown;
  return *asked;
}

void ExecutableGraph::keepWhole(WholeReason reason) {
  std::unique_lock lock(mutex);
  giveUp(reason);
}

void ExecutableGraph::readCopy() {
  if (!copy)
    return;
  readNow(copy);
  dropCopy();
  // The hooks do not know which node of the copy is which of the program's nodes.
  if (snapshot)
    snapshot->forgetHandles();
}

void ExecutableGraph::launchedAhead(const StreamState &stream) {
  std::unique_lock lock(mutex);
  aheadOn = &stream;
  aheadUse = stream.uses;
}

ExecutableGraph::Launch ExecutableGraph::launch(int onDevice, void *inContext,
                                                const StreamState &stream) {
  std::unique_lock lock(mutex);
  wasLaunched = true;
  // CUDA orders a whole launch behind the launch that went ahead.
  bool isElsewhere = aheadOn && (aheadOn != &stream || aheadUse != stream.uses);
  aheadOn = nullptr;
  bool afterHigh = std::exchange(wasHigh, false), recorded = std::exchange(highRecorded, false);
  readCopy();
  Launch result;
  result.reason = why;
  if (!snapshot)
    return result;
  if (onDevice != device)
    result.reason = WholeReason::SeveralDevices;
  else if (context && context != inContext)
    result.reason = WholeReason::OtherContext;
  else if (afterHigh)
    result.reason = WholeReason::AfterHigh;
  else if (isElsewhere)
    result.reason = WholeReason::AfterAhead;
  if (result.reason != WholeReason::None)
    return result;
  if (!ready) {
    Parts made;
    snapshot->addParts(made);
    ready = std::make_shared<const Parts>(std::move(made));
  }
  result.parts = ready;
  if (recorded)
    result.behind = highEvent;
  return result;
}

void ExecutableGraph::launchedHigh(cudaStream_t stream) {
  std::unique_lock lock(mutex);
  // The graph may never be launched as best effort, or never in parts.
  wasHigh = !wasLaunched || !snapshot;
  if (wasHigh)
    return;
  InHook inside;
  cudaEvent_t event = nullptr;
  if (!highEvent && api.cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess)
    highEvent = {event, [&api = api](cudaEvent_t which) {
                   InHook insideToo;
                   api.cudaEventDestroy(which);
                 }};
  highRecorded = highEvent && api.cudaEventRecord(highEvent.get(), stream) == cudaSuccess;
  wasHigh = !highRecorded;
}

/// Changes the snapshot, if there is one, by `apply`, which returns whether it could. For a graph
/// that is launched only as high priority, this check is the only cost of an update.
template <class Change> void ExecutableGraph::change(Change apply) {
  std::unique_lock lock(mutex);
  if (!snapshot && !copy)
    return; // the graph is launched whole already
  bool followed = false;
  if (snapshot && !isHighOnly())
    ask([&] { followed = apply(); });
  ready.reset();
  if (!followed)
    giveUp(WholeReason::Update);
}

SnapshotNode *ExecutableGraph::find(cudaGraphNode_t node) {
  if (index.empty())
    snapshot->addTo(index);
  auto found = index.find(node);
  return found == index.end() ? nullptr : found->second;
}

template <class Add> void ExecutableGraph::addUse(Add add) {
  std::unique_lock lock(mutex);
  asked.reset();
  if (use)
    ask([&] { add(*use); });
}

void ExecutableGraph::setKernel(cudaGraphNode_t node, const cudaKernelNodeParams &parameters) {
  addUse([&](GraphUse &of) { of.setKernel(parameters); });
  change([&] {
    SnapshotNode *found = find(node);
    if (!found || found->type != cudaGraphNodeTypeKernel)
      return false;
    GraphReader reader(api, registry, device);
    found->part = {reader.kernelPart(parameters, found->attributes), nullptr};
    return found->part.kernel != nullptr;
  });
}

void ExecutableGraph::setKernelByDriver(cudaGraphNode_t node,
                                        const CUDA_KERNEL_NODE_PARAMS_v2 &parameters,
                                        bool mayHaveVariants) {
  addUse([&](GraphUse &of) { of.setKernelByDriver(parameters); });
  change([&] {
    SnapshotNode *found = find(node);
    return found && found->type == cudaGraphNodeTypeKernel &&
           GraphReader(api, registry, device).setByDriver(*found, parameters, mayHaveVariants);
  });
}

void ExecutableGraph::setOther(cudaGraphNode_t node, const SmallGraph::Add &add) {
  change([&] {
    SnapshotNode *found = find(node);
    if (!found || !found->part.other || found->type == cudaGraphNodeTypeKernel)
      return false;
    found->part.other = SmallGraph::create(api, add);
    return found->part.other != nullptr;
  });
}

void ExecutableGraph::setChild(cudaGraphNode_t node, cudaGraph_t graph) {
  addUse([&](GraphUse &of) { of.addGraph(graph); });
  change([&] {
    SnapshotNode *found = find(node);
    if (!found || !found->child || found->child->hasDisabled())
      return false;
    GraphReader reader(api, registry, device);
    std::unique_ptr<GraphSnapshot> child = reader.read(graph);
    if (!child || !child->takeHandles(*found->child))
      return false;
    found->child = std::move(child);
    index.clear();
    return true;
  });
}

void ExecutableGraph::setEnabled(cudaGraphNode_t node, bool isEnabled) {
  bool known = false;
  change([&] {
    SnapshotNode *found = find(node);
    known = found != nullptr;
    if (found)
      found->isEnabled = isEnabled;
    return known;
  });
  std::unique_lock lock(mutex);
  disabledUnknown |= !known;
}

void ExecutableGraph::update(cudaGraph_t graph, bool isAhead) {
  std::unique_lock lock(mutex);
  runtime::Nanoseconds now = runtime::SteadyClock{}();
  bool isFrequent = now - std::exchange(updatedAt, now) < frequentUpdates;
  if (use)
    readUse(graph);
  bool mayHelp = snapshot || copy || why == WholeReason::Kernel ||
                 why == WholeReason::NotReadable || why == WholeReason::Update;
  if (!mayHelp)
    return;
  // The next update replaces all nodes again.
  if (isAhead && isFrequent)
    return giveUp(WholeReason::Update);
  // CUDA does not tell whether disabled nodes stay disabled.
  if (isHighOnly() || disabledUnknown || (snapshot && snapshot->hasDisabled()))
    return giveUp(WholeReason::Update);
  if (!wasLaunched) {
    giveUp(WholeReason::Update);
    ask([&] {
      if (api.cudaGraphClone(&copy, graph) != cudaSuccess)
        copy = nullptr;
    });
    return;
  }
  std::unique_ptr<GraphSnapshot> older = std::move(snapshot);
  dropCopy();
  readNow(graph);
  // Where the nodes are in another order, the hooks do not know which node is which.
  if (snapshot && !(older && snapshot->takeHandles(*older)))
    snapshot->forgetHandles();
  index.clear();
}

void Graphs::add(cudaGraphExec_t handle, std::shared_ptr<ExecutableGraph> graph) {
  std::unique_lock lock(mutex);
  byHandle[handle] = std::move(graph);
  count = byHandle.size();
}

std::shared_ptr<ExecutableGraph> Graphs::find(cudaGraphExec_t handle) {
  std::unique_lock lock(mutex);
  auto found = byHandle.find(handle);
  return found == byHandle.end() ? nullptr : found->second;
}

std::shared_ptr<ExecutableGraph> Graphs::remove(cudaGraphExec_t handle) {
  std::unique_lock lock(mutex);
  auto node = byHandle.extract(handle);
  count = byHandle.size();
  return node.empty() ? nullptr : std::move(node.mapped());
}

void Graphs::clear() {
  std::unique_lock lock(mutex);
  byHandle.clear();
  count = 0;
}

void Graphs::launched(WholeReason reason) {
  if (launches[static_cast<std::size_t>(reason)].fetch_add(1) == 0 && reason != WholeReason::None)
    writeLine("a graph on a best-effort stream is launched whole, and does not yield (" +
              std::string(nameOf(reason)) + "): " + std::string(textOf(reason)));
}

std::string Graphs::statistics() const {
  std::uint64_t inParts = launches[0].load();
  CountsInWords whole =
      inWords(launches, 1, [](std::size_t i) { return nameOf(static_cast<WholeReason>(i)); });
  if (whole.sum + inParts == 0)
    return "";
  return std::to_string(inParts) + " in parts, " + std::to_string(whole.sum) + " whole" +
         (whole.text.empty() ? "" : " (" + whole.text + ")");
}

} // namespace tally::hooks
