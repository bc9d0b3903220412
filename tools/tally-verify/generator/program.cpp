#include "program.h"

#include <algorithm>

namespace tally::verify {

namespace {

Reach reachOf(std::uint32_t number) {
  static constexpr Reach reaches[] = {Reach::Block, Reach::Block, Reach::Warp, Reach::Threads};
  return reaches[number & 3];
}

} // namespace

Reach reachOf(const Node &node) {
  switch (node.kind) {
  case NodeKind::SplitBarrier:
    return std::max(Reach::Warp, reachOf(node.n[0]));
  case NodeKind::Loop:
    return breaks(node) ? std::max(reachOf(node.n[0]), reachOf(node.n[3])) : reachOf(node.n[0]);
  case NodeKind::If:
  case NodeKind::Switch:
  case NodeKind::Leave:
    return reachOf(node.n[0]);
  default:
    return Reach::Block;
  }
}

} // namespace tally::verify
