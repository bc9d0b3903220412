// Graphs: operations with what they come after. A launch puts them on one stream in an order that
// keeps the dependencies.
#ifndef TALLY_LIB_EMULATED_CUDA_GRAPH_H
#define TALLY_LIB_EMULATED_CUDA_GRAPH_H

#include "context.h"

#include <concepts>
#include <functional>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

namespace tally::hooks::emulated {

/// What the program finds out about a kernel's node.
struct KernelDetails {
  const void *function = nullptr;
  LaunchShape shape;
  bool isCooperative = false;
  std::vector<std::byte> arguments;
  std::vector<void *> pointers; ///< to each of them
};
using NodeDetails = std::variant<std::monostate, KernelDetails, cudaMemcpy3DParms, cudaMemsetParams,
                                 cudaHostNodeParams>;

/// Issues an operation on a stream of the device.
struct GraphWork {
  GraphWork() = default;
  template <std::invocable<runtime::EmulatorDevice &, runtime::StreamId> Issue>
    requires(!std::same_as<Issue, GraphWork>)
  GraphWork(Issue issue, NodeDetails details = {})
      : issue(std::move(issue)), details(std::make_shared<const NodeDetails>(std::move(details))) {}

  explicit operator bool() const { return static_cast<bool>(issue); }
  Result<void> operator()(runtime::EmulatorDevice &device, runtime::StreamId stream) const {
    return issue(device, stream);
  }

  std::function<Result<void>(runtime::EmulatorDevice &, runtime::StreamId)> issue;
  std::shared_ptr<const NodeDetails> details; ///< may be null
};

struct Graph;

struct GraphNode {
  Graph *graph = nullptr;
  cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
  GraphWork work;
  std::shared_ptr<Graph> child; ///< of a node that embeds a graph, which is its own
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
  /// The same with the nodes of embedded graphs in the place of what embeds them.
  std::vector<GraphNode *> flattened() const;
};

/// A stream capture under way.
struct Capture {
  std::unique_ptr<Graph> graph = std::make_unique<Graph>();
  unsigned long long number = 0;
  const struct Stream *origin = nullptr;
  bool isInvalid = false; ///< by a call that a captured stream forbids
};

} // namespace tally::hooks::emulated

#endif
