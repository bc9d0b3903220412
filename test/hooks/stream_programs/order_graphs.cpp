// The rules of Order for graphs.
#include "order.h"

#include <algorithm>

namespace tally::programs {

bool Order::callsHost(const Operation &operation) const {
  if (operation.kind != OperationKind::GraphLaunch)
    return operation.kind == OperationKind::HostFunction;
  const std::vector<Operation> &body = graphs.at(operation.graph).body;
  return std::any_of(body.begin(), body.end(),
                     [](const auto &each) { return each.kind == OperationKind::HostFunction; });
}

bool Order::checkGraph(const Operation &operation) {
  using enum OperationKind;
  auto known = graphs.find(operation.graph);
  if (operation.kind == GraphBegin) {
    // Only the thread's own streams: no other thread may use the stream meanwhile.
    bool byNodes = operation.value != 0;
    if (known != graphs.end() || operation.graph < 0 || byNodes != (operation.stream < 0))
      return false;
    if (!byNodes && (!mayUse(operation) || operation.stream < firstCreated))
      return false;
    // Another thread's use of the legacy stream would end a capture on a blocking one.
    if (!byNodes && threads > 1 && (!streams[operation.stream].nonBlocking || hasWaitedForDevice))
      return false;
    hasCaptures = hasCaptures || !byNodes;
    GraphState &made = graphs[operation.graph];
    made.open = true;
    made.owner = operation.thread;
    made.stream = operation.stream;
    made.byNodes = byNodes;
    Operation call = operation;
    call.stream = -1;
    put(call, completed[index(operation.thread)]);
    complete(operation.thread);
    return true;
  }
  if (known == graphs.end() || known->second.owner != operation.thread)
    return false;
  GraphState &graph = known->second;
  if (operation.kind == GraphEnd) {
    if (!graph.open || graph.body.empty())
      return false;
    graph.open = false;
    graph.live = true;
    return true;
  }
  if (!graph.live)
    return false;
  if (operation.kind == GraphUpdate) {
    if (operation.node < 0 || operation.node >= static_cast<int>(graph.body.size()))
      return false;
    OperationKind kind = graph.body[index(operation.node)].kind;
    // A captured graph is captured again on its stream.
    return (kind == Launch || kind == Fill) && (graph.byNodes || streams[graph.stream].live);
  }
  for (int each : graph.launches)
    if (!completed[index(operation.thread)][index(each)])
      return false;
  graph.live = false;
  for (const auto *each : {&graph.reads, &graph.writes})
    for (int buffer : *each)
      --buffers[buffer].graphs;
  return true;
}

/// The thread's operations between GraphBegin and GraphEnd.
bool Order::checkBody(const Operation &operation) {
  using enum OperationKind;
  GraphState &graph = graphs[operation.graph];
  if (operation.kind != Launch && operation.kind != Fill && operation.kind != Copy &&
      operation.kind != HostFunction)
    return false;
  if (operation.branch < 0 || operation.branch > 1 || operation.stream >= 0)
    return false;
  // Branch 1 forks from branch 0 after its first node.
  if (operation.branch == 1 && graph.body.empty())
    return false;
  std::vector<int> reads, writes = {operation.to};
  for (int source : {operation.from, operation.also})
    if (source >= 0 && operation.kind != Fill && operation.kind != HostFunction)
      reads.push_back(source);
  for (const auto *each : {&reads, &writes})
    for (int buffer : *each) {
      // The graph holds the address of the buffer.
      if (!isReady(buffer) || !issued[index(operation.thread)][index(buffers[buffer].allocation)])
        return false;
      Memory memory = buffers[buffer].memory;
      bool wantsHost = operation.kind == HostFunction;
      if (operation.kind == Copy ? memory != Memory::Pinned && memory != Memory::Device
                                 : memory != (wantsHost ? Memory::Pinned : Memory::Device))
        return false;
    }
  if (operation.kind == Copy && (reads.empty() || (isOnHost(buffers[operation.to].memory) &&
                                                   isOnHost(buffers[operation.from].memory))))
    return false;
  for (int source : reads)
    if (source == operation.to)
      return false;
  bool forked = graph.forked || operation.branch == 1;
  auto contains = [](const std::vector<int> &list, int buffer) {
    return std::find(list.begin(), list.end(), buffer) != list.end();
  };
  std::size_t other = operation.branch == 0 ? 1 : 0;
  for (int buffer : reads)
    if (contains(graph.branchWrites[other], buffer))
      return false;
  for (int buffer : writes)
    if (contains(graph.branchWrites[other], buffer) || contains(graph.branchReads[other], buffer))
      return false;
  graph.forked = forked;
  if (forked) {
    auto &ownReads = graph.branchReads[1 - other], &ownWrites = graph.branchWrites[1 - other];
    ownReads.insert(ownReads.end(), reads.begin(), reads.end());
    ownWrites.insert(ownWrites.end(), writes.begin(), writes.end());
  }
  for (int buffer : reads)
    graph.reads.push_back(buffer);
  for (int buffer : writes)
    graph.writes.push_back(buffer);
  for (const auto *each : {&reads, &writes})
    for (int buffer : *each)
      ++buffers[buffer].graphs;
  graph.body.push_back(operation);
  return true;
}

bool Order::checkGraphLaunch(const Operation &operation) {
  auto known = graphs.find(operation.graph);
  if (known == graphs.end() || !known->second.live || known->second.owner != operation.thread ||
      !mayUse(operation))
    return false;
  GraphState &graph = known->second;
  for (int buffer : graph.reads)
    if (!canRead(buffer, ahead))
      return false;
  for (int buffer : graph.writes)
    if (!canWrite(buffer, ahead) || !buffers[buffer].filled)
      return false;
  for (int buffer : graph.reads)
    noteRead(buffer);
  for (int buffer : graph.writes)
    noteWrite(buffer);
  graph.launches.push_back(count());
  put(operation, ahead);
  return true;
}

} // namespace tally::programs
