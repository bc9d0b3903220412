#include "reduce.h"

#include <algorithm>
#include <utility>

namespace tally::verify {

namespace {

using List = std::vector<Node>;

void collectLists(List &list, std::vector<List *> &lists) {
  lists.push_back(&list);
  for (Node &node : list) {
    collectLists(node.body, lists);
    collectLists(node.otherwise, lists);
  }
}

/// Returns all lists of statements, outer ones first; equal programs give the same order.
std::vector<List *> listsOf(Program &program) {
  std::vector<List *> lists;
  collectLists(program.body, lists);
  for (DeviceFunction &function : program.functions)
    collectLists(function.body, lists);
  return lists;
}

class Reducer {
public:
  Reducer(Program program, const std::function<bool(const Program &)> &fails,
          const ReduceOptions &options)
      : best(std::move(program)), fails(fails), left(options.maxAttempts) {}

  Program run() {
    bool smaller = true;
    while (smaller && left != 0) {
      smaller = false;
      smaller |= removeStatements();
      smaller |= unwrap();
      smaller |= removeFunctions();
      smaller |= plainFlags();
      smaller |= shrinkShape();
      smaller |= zeroNumbers();
    }
    return std::move(best);
  }

private:
  template <class Edit> bool attempt(Edit edit) {
    if (left == 0)
      return false;
    Program candidate = best;
    if (!edit(candidate))
      return false;
    --left;
    if (!fails(candidate))
      return false;
    best = std::move(candidate);
    return true;
  }

  std::size_t listCount() { return listsOf(best).size(); }

  bool removeStatements() {
    bool any = false;
    for (std::size_t list = 0; list < listCount(); ++list)
      for (std::size_t size = listsOf(best)[list]->size(); size != 0; size /= 2)
        for (std::size_t at = 0; at < listsOf(best)[list]->size();) {
          bool gone = attempt([&](Program &candidate) {
            List &from = *listsOf(candidate)[list];
            auto begin = from.begin() + static_cast<std::ptrdiff_t>(at);
            from.erase(begin, from.begin() +
                                  static_cast<std::ptrdiff_t>(std::min(at + size, from.size())));
            return true;
          });
          any |= gone;
          at += gone ? 0 : size;
        }
    return any;
  }

  /// Replaces a statement by its inner statements.
  bool unwrap() {
    bool any = false;
    for (std::size_t list = 0; list < listCount(); ++list)
      for (std::size_t at = 0; at < listsOf(best)[list]->size(); ++at)
        for (List Node::*part : {&Node::body, &Node::otherwise})
          any |= attempt([&](Program &candidate) {
            List &from = *listsOf(candidate)[list];
            if (at >= from.size() || (from[at].*part).empty())
              return false;
            List inside = std::move(from[at].*part);
            auto place = from.erase(from.begin() + static_cast<std::ptrdiff_t>(at));
            from.insert(place, inside.begin(), inside.end());
            return true;
          });
    return any;
  }

  bool removeFunctions() {
    bool any = false;
    for (std::size_t at = 0; at < best.functions.size();) {
      bool gone = attempt([&](Program &candidate) {
        candidate.functions.erase(candidate.functions.begin() + static_cast<std::ptrdiff_t>(at));
        return true;
      });
      any |= gone;
      at += gone ? 0 : 1;
    }
    return any;
  }

  template <class T> bool plain(T Program::*member) {
    return attempt([&](Program &candidate) {
      bool changes = candidate.*member != T{};
      candidate.*member = T{};
      return changes;
    });
  }

  bool plainFlags() {
    bool any = plain(&Program::noise);
    any |= plain(&Program::dynamicShared);
    any |= plain(&Program::withoutParameters);
    any |= plain(&Program::delay);
    any |= plain(&Program::layout);
    return any;
  }

  bool shrinkShape() {
    bool any = false;
    for (Dim3 LaunchShape::*extents : {&LaunchShape::grid, &LaunchShape::block})
      for (std::uint32_t Dim3::*extent : {&Dim3::x, &Dim3::y, &Dim3::z})
        for (std::uint32_t to : {1u, 2u, 3u, 32u, 64u})
          any |= attempt([&](Program &candidate) {
            std::uint32_t &value = candidate.shape.*extents.*extent;
            bool changes = value > to;
            value = to;
            return changes;
          });
    return any;
  }

  bool zeroNumbers() {
    bool any = false;
    for (std::size_t list = 0; list < listCount(); ++list)
      for (std::size_t at = 0; at < listsOf(best)[list]->size(); ++at)
        for (std::size_t number = 0; number < std::tuple_size_v<decltype(Node::n)>; ++number)
          any |= attempt([&](Program &candidate) {
            return std::exchange((*listsOf(candidate)[list])[at].n[number], 0u) != 0;
          });
    return any;
  }

  Program best;
  const std::function<bool(const Program &)> &fails;
  std::uint32_t left;
};

std::size_t count(const List &list) {
  std::size_t result = list.size();
  for (const Node &node : list)
    result += count(node.body) + count(node.otherwise);
  return result;
}

} // namespace

Program reduce(Program program, const std::function<bool(const Program &)> &fails,
               const ReduceOptions &options) {
  return Reducer(std::move(program), fails, options).run();
}

std::size_t countStatements(const Program &program) {
  std::size_t result = count(program.body);
  for (const DeviceFunction &function : program.functions)
    result += count(function.body);
  return result;
}

} // namespace tally::verify
