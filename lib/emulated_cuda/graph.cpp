#include "graph.h"

#include <algorithm>
#include <unordered_map>

namespace tally::hooks::emulated {

GraphNode *Graph::add(cudaGraphNodeType type, GraphWork work, std::vector<GraphNode *> after) {
  auto node = std::make_unique<GraphNode>();
  node->graph = this;
  node->type = type;
  node->work = std::move(work);
  node->after = std::move(after);
  return nodes.emplace_back(std::move(node)).get();
}

std::unique_ptr<Graph> Graph::clone() const {
  auto result = std::make_unique<Graph>();
  std::unordered_map<const GraphNode *, GraphNode *> copies;
  for (const auto &each : nodes) {
    GraphNode *copy = result->add(each->type, each->work, {});
    copy->original = each.get();
    if (each->child)
      copy->child = each->child->clone();
    copies[each.get()] = copy;
  }
  for (const auto &each : nodes)
    for (const GraphNode *before : each->after)
      copies[each.get()]->after.push_back(copies[before]);
  return result;
}

bool Graph::holds(const GraphNode *node) const {
  return std::ranges::any_of(nodes, [&](const auto &each) { return each.get() == node; });
}

std::vector<GraphNode *> Graph::ordered() const {
  std::unordered_map<const GraphNode *, std::size_t> missing;
  std::unordered_map<const GraphNode *, std::vector<GraphNode *>> followers;
  std::vector<GraphNode *> order;
  for (const auto &each : nodes) {
    missing[each.get()] = each->after.size();
    for (GraphNode *before : each->after)
      followers[before].push_back(each.get());
    if (each->after.empty())
      order.push_back(each.get());
  }
  for (std::size_t i = 0; i < order.size(); ++i)
    for (GraphNode *next : followers[order[i]])
      if (--missing[next] == 0)
        order.push_back(next);
  return order.size() == nodes.size() ? order : std::vector<GraphNode *>{};
}

std::vector<GraphNode *> Graph::flattened() const {
  std::vector<GraphNode *> flat;
  for (GraphNode *each : ordered()) {
    if (!each->child) {
      flat.push_back(each);
      continue;
    }
    std::vector<GraphNode *> inner = each->child->flattened();
    flat.insert(flat.end(), inner.begin(), inner.end());
  }
  return flat;
}

} // namespace tally::hooks::emulated
