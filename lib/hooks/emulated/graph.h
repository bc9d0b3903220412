// Graphs: operations with what they come after. A launch puts them on one stream in an order that
// keeps the dependencies.
#ifndef TALLY_LIB_HOOKS_EMULATED_GRAPH_H
#define TALLY_LIB_HOOKS_EMULATED_GRAPH_H

#include "context.h"

#include <functional>
#include <memory>
#include <vector>

namespace tally::hooks::emulated {

/// Issues an operation on a stream of the device.
using GraphWork = std::function<Result<void>(runtime::EmulatorDevice &, runtime::StreamId)>;

struct Graph;

struct GraphNode {
  Graph *graph = nullptr;
  cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
  GraphWork work;
  std::vector<GraphNode *> after;
  const GraphNode *original = nullptr; ///< of an instantiated node: the graph's
  bool isEnabled = true;
};

struct Graph {
  std::vector<std::unique_ptr<GraphNode>> nodes;

  GraphNode *add(cudaGraphNodeType type, GraphWork work, std::vector<GraphNode *> after);
  std::unique_ptr<Graph> clone() const;
  bool holds(const GraphNode *node) const;
  /// The nodes in an order that keeps the dependencies; empty where they have a cycle.
  std::vector<GraphNode *> ordered() const;
};

/// A stream capture under way.
struct Capture {
  std::unique_ptr<Graph> graph = std::make_unique<Graph>();
  unsigned long long number = 0;
  const struct Stream *origin = nullptr;
};

} // namespace tally::hooks::emulated

#endif
