// Branches, loops, scopes, exits and calls.
#include "emitter.h"

#include <algorithm>

namespace tally::verify {

std::string Emitter::label() {
  // Reuses names in every scope of one depth: a label is known in its own scope only.
  if (scopes != 0)
    return fmt::format("$S{}_{}", scopes, scopeLabels[scopes % 16]++);
  return fmt::format("$L{}_{}", current ? fmt::format("f{}", currentIndex) : "", labels++);
}

void Emitter::statements(const std::vector<Node> &nodes, const Context &context) {
  for (const Node &node : nodes)
    statement(node, context);
}

void Emitter::statement(const Node &node, const Context &context) {
  switch (node.kind) {
  case NodeKind::Operation:
    return operation(node, context);
  case NodeKind::UniformOperation:
    return uniformOperation(node, context);
  case NodeKind::Wide:
    return wide(node);
  case NodeKind::Float:
    return floating(node);
  case NodeKind::Load:
    return load(node);
  case NodeKind::Store:
    return store(node);
  case NodeKind::Parameter:
    return parameter(node);
  case NodeKind::Local:
    return local(node);
  case NodeKind::GlobalAtomic:
    return globalAtomic(node);
  case NodeKind::SharedAtomic:
    return sharedAtomic(node, context);
  case NodeKind::SharedTotal:
    return sharedTotal(node, context);
  case NodeKind::If:
    return ifStatement(node, context);
  case NodeKind::Loop:
    return loop(node, context);
  case NodeKind::Switch:
    return switchStatement(node, context);
  case NodeKind::Scope:
    return scope(node, context);
  case NodeKind::Leave:
    return leave(node, context);
  case NodeKind::Barrier:
    return barrierStatement(node, context);
  case NodeKind::Exchange:
    return exchange(node, context);
  case NodeKind::SplitBarrier:
    return splitBarrier(node, context);
  case NodeKind::PartBarrier:
    return partBarrier(node, context);
  case NodeKind::Arrival:
    return arrival(node, context);
  case NodeKind::Warp:
    return warp(node, context);
  case NodeKind::Call:
    return call(node, context);
  case NodeKind::IndirectCall:
    return indirectCall(node, context);
  case NodeKind::Recursion:
    return recursion(node, context);
  case NodeKind::Ticket:
    return ticket(node, context);
  case NodeKind::LookBack:
    return lookBack(node, context);
  }
}

/// Returns a predicate that is the same for all threads of `reach`.
std::string Emitter::condition(Reach reach, std::uint32_t number) {
  std::string x = word(), result = predicate();
  std::uint32_t form = number % 4, rest = number >> 4;
  switch (reach) {
  case Reach::Block:
    if (form == 0) {
      line("and.b32 {}, {}, {}", x, uniform(rest), 1u << (rest >> 4) % 3);
      line("setp.ne.u32 {}, {}, 0", result, x);
    } else if (form == 1) {
      line("setp.lt.u32 {}, {}, {}", result, uniform(rest), (rest >> 4) % 5);
    } else {
      std::string value = special(rest, true);
      line("setp.{}.u32 {}, {}, {}", form == 2 ? "eq" : "ge", result, value, (rest >> 8) % 3);
    }
    break;
  case Reach::Warp:
    if (form < 2) {
      line("and.b32 {}, %warp, 1", x);
      line("setp.eq.u32 {}, {}, {}", result, x, form);
    } else {
      line("shr.u32 {}, %tl, 5", x);
      line("setp.lt.u32 {}, {}, {}", result, x, 1 + rest % 2);
    }
    break;
  case Reach::Threads:
    if (form == 0) {
      line("and.b32 {}, {}, {}", x, varying(rest), 1u << (rest >> 4) % 8);
      line("setp.ne.u32 {}, {}, 0", result, x);
    } else if (form == 1) {
      line("setp.lt.u32 {}, %tl, {}", result, 1 + rest % 40);
    } else if (form == 2) {
      line("setp.{}.u32 {}, %lane, {}", rest & 64 ? "eq" : "ge", result, rest % 32);
    } else {
      std::string value = special(rest | 16, false);
      line("setp.gt.u32 {}, {}, {}", result, value, (rest >> 8) % 16);
    }
    break;
  }
  return result;
}

bool Emitter::wantsMask(const std::vector<Node> &nodes) const {
  return std::ranges::any_of(nodes, [&](const Node &node) {
    return node.kind == NodeKind::Warp || node.kind == NodeKind::Call ||
           node.kind == NodeKind::Recursion || node.kind == NodeKind::Barrier ||
           wantsMask(node.body) || wantsMask(node.otherwise);
  });
}

/// Whether threads may exit inside of `nodes` while other threads of their block go on.
bool Emitter::mayExit(const std::vector<Node> &nodes, bool divergent) const {
  return std::ranges::any_of(nodes, [&](const Node &node) {
    bool inside = divergent || reachOf(node) != Reach::Block;
    if (node.kind == NodeKind::Leave)
      return inside;
    if (node.kind == NodeKind::Call || node.kind == NodeKind::IndirectCall)
      return std::ranges::any_of(program.functions, &DeviceFunction::mayExit);
    return mayExit(node.body, inside) || mayExit(node.otherwise, inside);
  });
}

Emitter::Context Emitter::inner(const Context &context, Reach reach) const {
  Context result = context;
  result.uniform &= reach == Reach::Block;
  result.warpUniform &= reach != Reach::Threads;
  ++result.depth;
  return result;
}

void Emitter::ifStatement(const Node &node, const Context &context) {
  Reach reach = reachOf(node);
  Context taken = inner(context, reach), other = taken;
  std::string taking = condition(reach, node.n[1]);
  if (reach == Reach::Threads) {
    bool asks = !context.mask.empty() && (wantsMask(node.body) || wantsMask(node.otherwise));
    taken.mask = asks ? word() : "";
    other.mask = asks ? word() : "";
    if (asks) {
      line("vote.sync.ballot.b32 {}, {}, {}", taken.mask, taking, context.mask);
      line("vote.sync.ballot.b32 {}, !{}, {}", other.mask, taking, context.mask);
    }
  }
  std::string otherwise = label(), end = label();
  line("@!{} bra{} {}", taking, reach == Reach::Block && node.n[2] & 1 ? ".uni" : "", otherwise);
  SharedState before = shared;
  statements(node.body, taken);
  SharedState after = shared;
  shared = before;
  if (!node.otherwise.empty())
    line("bra{} {}", node.n[2] & 2 ? ".uni" : "", end);
  place(otherwise);
  statements(node.otherwise, other);
  place(end);
  shared.join(after);
}

/// Emits a counted loop; its number of turns is chosen per block, warp or thread.
void Emitter::loop(const Node &node, Context context) {
  Reach reach = reachOf(node);
  Reach turns = std::array{Reach::Block, Reach::Block, Reach::Warp, Reach::Threads}[node.n[0] & 3];
  std::string count = word(), limit = word(), more = predicate();
  switch (turns) {
  case Reach::Block:
    if (node.n[1] & 1) {
      line("and.b32 {}, {}, 1", limit, uniform(node.n[1] >> 1));
      line("add.u32 {0}, {0}, 1", limit);
    } else {
      line("mov.u32 {}, {}", limit, 1 + (node.n[1] >> 1) % 3);
    }
    break;
  case Reach::Warp:
    line("and.b32 {}, %warp, 1", limit);
    line("add.u32 {0}, {0}, {1}", limit, node.n[1] % 3);
    break;
  case Reach::Threads:
    line("and.b32 {}, {}, 3", limit, varying(node.n[1]));
    break;
  }
  line("mov.u32 {}, 0", count);
  Context within = inner(context, reach);
  within.inLoop = true;
  if (reach == Reach::Threads) {
    bool asks = !context.mask.empty() && (wantsMask(node.body) || wantsMask(node.otherwise));
    within.mask = asks ? word() : "";
    if (asks)
      line("mov.b32 {}, {}", within.mask, context.mask);
  }
  // A later turn runs the start of the body after exits in an earlier turn.
  if (mayExit(node.body, !within.uniform) || mayExit(node.otherwise, !within.uniform))
    exited = Exited::Lanes;
  shared.unknown();
  std::string head = label(), end = label();
  // The test is at the end, as in most loops of compilers; a vote that narrows the mask is at the
  // beginning.
  if ((node.n[2] & 4) && within.mask.empty()) {
    testedAtEnd(node, within, {count, limit, more}, head, end);
    return;
  }
  place(head);
  if (node.n[2] & 1)
    text += "\t.pragma \"nounroll\";\n";
  line("setp.lt.u32 {}, {}, {}", more, count, limit);
  if (reach == Reach::Threads && !within.mask.empty())
    line("vote.sync.ballot.b32 {0}, {1}, {0}", within.mask, more);
  line("@!{} bra {}", more, end);
  line("add.u32 {0}, {0}, 1", count);
  loopBody(node, within, end);
  line("bra{} {}", turns == Reach::Block && node.n[2] & 2 ? ".uni" : "", head);
  place(end);
  shared.unknown();
}

/// Emits the same number of turns, or some more, with a counter that goes up or down and a test
/// behind the body.
void Emitter::testedAtEnd(const Node &node, const Context &within, const Counter &counter,
                          const std::string &head, const std::string &end) {
  const auto &[count, limit, more] = counter;
  line("setp.eq.u32 {}, {}, 0", more, limit);
  line("@{} bra {}", more, end);
  if (node.n[2] & 8)
    line("mad.lo.u32 {0}, {0}, 3, 2", limit);
  unsigned form = node.n[2] >> 4 & 3;
  if (form == 2)
    line("mov.u32 {}, {}", count, limit);
  if (form == 3)
    line("neg.s32 {}, {}", count, limit);
  // Counters that go up to a limit may also step by a register.
  std::string step = std::array{"1", "1", "-1", "2"}[form];
  if ((form == 0 || form == 3) && (node.n[2] & 64)) {
    bool apart = !within.uniform && !within.warpUniform;
    step = word();
    line("and.b32 {}, {}, 1", step, apart ? varying(node.n[3] >> 3) : uniform(node.n[3] >> 3));
    line("add.u32 {0}, {0}, 1", step);
  }
  place(head);
  if (node.n[2] & 1)
    text += "\t.pragma \"nounroll\";\n";
  // The counter may advance from a copy, as compilers do where the body reads the turn's first
  // value.
  std::string from = count;
  if (node.n[2] & 128) {
    from = word();
    line("mov.u32 {}, {}", from, count);
  }
  loopBody(node, within, end);
  line("add.s32 {}, {}, {}", count, from, step);
  line("setp.{} {}, {}, {}", std::array{"lt.u32", "ne.s32", "gt.s32", "lt.s32"}[form], more, count,
       form == 2 ? std::string(1, '0') : limit);
  line("@{} bra {}", more, head);
  place(end);
  shared.unknown();
}

void Emitter::loopBody(const Node &node, const Context &within, const std::string &end) {
  statements(node.body, within);
  if (breaks(node)) {
    static constexpr Reach reaches[] = {Reach::Block, Reach::Block, Reach::Warp, Reach::Threads};
    std::string leaving = condition(reaches[node.n[3] & 3], node.n[4]);
    if (reachOf(node) == Reach::Threads && !within.mask.empty())
      line("vote.sync.ballot.b32 {0}, !{1}, {0}", within.mask, leaving);
    line("@{} bra {}", leaving, end);
  }
  statements(node.otherwise, within);
}

void Emitter::switchStatement(const Node &node, const Context &context) {
  Reach reach = reachOf(node);
  Context within = inner(context, reach);
  if (reach == Reach::Threads)
    within.mask.clear();
  std::string selector = word();
  switch (reach) {
  case Reach::Block:
    line("and.b32 {}, {}, 3", selector, uniform(node.n[1]));
    break;
  case Reach::Warp:
    line("and.b32 {}, %warp, 3", selector);
    break;
  case Reach::Threads:
    line("and.b32 {}, {}, 3", selector, varying(node.n[1]));
    break;
  }
  std::string first = label(), second = label(), end = label(), table = label();
  text += fmt::format("{}: .branchtargets {}, {}, {}, {};\n", table, first, second, end,
                      node.n[2] & 1 ? first : end);
  line("brx.idx{} {}, {}", reach == Reach::Block && node.n[2] & 2 ? ".uni" : "", selector, table);
  SharedState before = shared;
  place(first);
  statements(node.body, within);
  SharedState after = shared;
  // The first case either falls through to the second or not.
  if (node.n[2] & 4)
    line("bra {}", end);
  shared.join(before);
  place(second);
  statements(node.otherwise, within);
  place(end);
  shared.join(after);
  shared.join(before);
}

void Emitter::scope(const Node &node, const Context &context) {
  std::string shadow = varying(node.n[0]), other = uniform(node.n[1]);
  ++scopes;
  scopeLabels[scopes % 16] = 0;
  text += "\t{\n";
  text += fmt::format("\t.reg .b32 {};\n", shadow);
  line("mov.u32 {}, {}", shadow, node.n[2]);
  if (node.n[3] & 1) {
    text += fmt::format("\t.reg .u32 {};\n", other);
    line("mov.u32 {}, {}", other, node.n[4] % 8);
  }
  statements(node.body, context);
  text += node.n[3] & 2 ? "}\n" : "\t}\n";
  --scopes;
}

/// Writes the thread's last trace, then leaves: by exiting or, in a function that may not exit, by
/// returning.
void Emitter::leave(const Node &node, const Context &context) {
  if (current && !current->mayExit)
    return returnEarly(node, context);
  Reach reach = reachOf(node);
  bool always = context.depth > (current ? 1u : 0u) && node.n[1] % 4 == 0 && !current;
  std::string guard;
  if (!always)
    guard = fmt::format("@{} ", condition(reach, node.n[2]));
  line("{}st.global.u32 [%own+12], {}", guard, node.n[3]);
  if (current)
    line("{}exit", guard);
  else
    line("{}{}", guard, std::array{"ret", "exit", "bra $done", "bra $done"}[(node.n[1] >> 4) % 4]);
  someLeft = true;
  if (reach == Reach::Block && context.uniform)
    return;
  Exited who = reach != Reach::Threads && context.warpUniform ? Exited::Warps : Exited::Lanes;
  exited = std::max(exited, who);
}

/// Emits the return only among the function's outermost statements, because the mask of the threads
/// that stay is computed anew there.
void Emitter::returnEarly(const Node &node, const Context &context) {
  if (context.depth != 1 || context.inLoop || scopes != 0)
    return;
  Reach reach = current->hasBarrier ? Reach::Block : reachOf(node);
  std::string taking = condition(reach, node.n[2]);
  // An indirect call passes no mask, but only calls functions that need none.
  if (wantsMask(current->body))
    line("vote.sync.ballot.b32 %mask, !{}, %mask", taking);
  line("@{} {}", taking, node.n[1] & 1 ? "ret" : "bra $return");
}

void Emitter::callText(const Node &node, std::string_view target, std::string_view depth,
                       std::string_view prototype, const Context &context) {
  std::string to = varying(node.n[1]), a = varying(node.n[2]), b = operand(node.n[3]);
  std::string argument = word();
  line("mov.b32 {}, {}", argument, b);
  text += "\t{\n";
  int index = 0;
  const std::string mask = context.mask.empty() ? "0" : context.mask;
  std::string depthWord = word(), maskWord = word();
  line("mov.b32 {}, {}", depthWord, depth);
  line("mov.b32 {}, {}", maskWord, mask);
  for (const std::string &each : {a, argument, maskWord, depthWord}) {
    text += fmt::format("\t.param .b32 param{};\n", index);
    line("st.param.b32 [param{}+0], {}", index++, each);
  }
  for (const char *each : {"%own", "%in", "%acc"}) {
    text += fmt::format("\t.param .b64 param{};\n", index);
    line("st.param.b64 [param{}+0], {}", index++, each);
  }
  text += "\t.param .b32 retval0;\n";
  if (!prototype.empty())
    text += fmt::format("\t{}: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b32 _, "
                        ".param .b32 _, .param .b32 _, .param .b64 _, .param .b64 _, "
                        ".param .b64 _);\n",
                        prototype);
  text += fmt::format("\tcall{} (retval0),\n\t{},\n\t(\n\tparam0,\n\tparam1,\n\tparam2,\n\tparam3,"
                      "\n\tparam4,\n\tparam5,\n\tparam6\n\t){}{};\n",
                      context.uniform && prototype.empty() ? ".uni" : "", target,
                      prototype.empty() ? "" : ", ", prototype);
  line("ld.param.b32 {}, [retval0+0]", argument);
  text += "\t}\n";
  line("add.u32 {0}, {0}, {1}", to, argument);
}

void Emitter::call(const Node &node, const Context &context) {
  if (program.functions.empty() || current)
    return;
  auto index = node.n[0] % program.functions.size();
  const DeviceFunction &callee = program.functions[index];
  if ((callee.hasBarrier && !context.uniform) || context.mask.empty())
    return;
  callText(node, fmt::format("device_{}", index), fmt::format("{}", node.n[4] % 4), "", context);
  if (callee.mayExit) {
    exited = Exited::Lanes;
    someLeft = true;
  }
  // A barrier in the callee adds no knowledge of shared memory.
}

void Emitter::indirectCall(const Node &node, const Context &context) {
  std::vector<std::size_t> targets;
  for (std::size_t i = 0; i < program.functions.size(); ++i)
    if (!program.functions[i].hasBarrier && !wantsMask(program.functions[i].body))
      targets.push_back(i);
  if (targets.empty() || current)
    return;
  std::size_t one = targets[node.n[0] % targets.size()];
  std::size_t two = targets[(node.n[0] >> 8) % targets.size()];
  Reach reach = node.n[4] & 1 ? Reach::Threads : Reach::Block;
  std::string taking = condition(reach, node.n[4] >> 2);
  std::string a = wideWord(), b = wideWord();
  line("mov.u64 {}, device_{}", a, one);
  line("mov.u64 {}, device_{}", b, two);
  line("selp.b64 {0}, {0}, {1}, {2}", a, b, taking);
  callText(node, a, "0", fmt::format("prototype_{}", prototypes++), context);
  if (program.functions[one].mayExit || program.functions[two].mayExit) {
    exited = Exited::Lanes;
    someLeft = true;
  }
}

void Emitter::recursion(const Node &node, const Context &context) {
  if (!current || context.depth != 1 || context.inLoop)
    return;
  std::string stop = label(), depth = word(), last = predicate();
  line("setp.eq.u32 {}, %dep, 0", last);
  line("@{} bra {}", last, stop);
  line("add.s32 {}, %dep, -1", depth);
  callText(node, fmt::format("device_{}", currentIndex), depth, "", context);
  place(stop);
}

} // namespace tally::verify
