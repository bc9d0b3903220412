// Graphs: operations with their dependencies. A launch puts the operations on one stream in an
// order that keeps the dependencies.
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

/// The details that a program can query of a kernel's node.
struct KernelDetails {
  const void *function = nullptr;
  LaunchShape shape;
  bool isCooperative = false;
  std::vector<std::byte> arguments;
  std::vector<void *> pointers; ///< one per argument
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
  std::shared_ptr<Graph> child; ///< for a node that embeds a graph: a graph of its own
  std::vector<GraphNode *> after;
  const GraphNode *original = nullptr; ///< for an instantiated node: the node of the original graph
  bool isEnabled = true;
};

struct Graph {
  std::vector<std::unique_ptr<GraphNode>> nodes;

  GraphNode *add(cudaGraphNodeType type, GraphWork work, std::vector<GraphNode *> after);
  std::unique_ptr<Graph> clone() const;
  bool holds(const GraphNode *node) const;
  /// The nodes in an order that keeps the dependencies; empty where the dependencies have a cycle.
  std::vector<GraphNode *> ordered() const;
  /// The same, with the nodes of embedded graphs in place of the node that embeds them.
  std::vector<GraphNode *> flattened() const;
};

/// A stream capture in progress.
struct Capture {
  std::unique_ptr<Graph> graph = std::make_unique<Graph>();
  unsigned long long number = 0;
  const struct Stream *origin = nullptr;
  bool isInvalid = false; ///< made so by a call that a captured stream forbids
};

} // namespace tally::hooks::emulated

#endif
