// Barriers, shared memory, and operations of a warp.
#include "emitter.h"

namespace tally::verify {

/// Emits a barrier of all threads of the block that have not exited, in one of the equivalent
/// forms.
void Emitter::barrier(std::uint32_t number, bool countAllowed) {
  static constexpr const char *forms[] = {"bar.sync",         "bar.sync",
                                          "barrier.sync",     "barrier.sync.aligned",
                                          "barrier.cta.sync", "bar.cta.sync"};
  std::uint32_t form = number % 16, rest = number >> 4;
  if (form < 9) {
    line("{} {}", forms[form % 6], rest % 3 == 0 ? (rest >> 4) % 6 : 0);
  } else if (form < 13) {
    std::string to = uniform(rest), x = word(), given = predicate(), made = predicate();
    line("and.b32 {}, {}, 5", x, varying(rest >> 2));
    line("setp.eq.u32 {}, {}, 1", given, x);
    switch (form) {
    case 9:
    case 10:
      line("bar.red.popc.u32 {}, {}, {}{}", to, (rest >> 4) % 6, form == 9 ? "" : "!", given);
      break;
    default:
      line("{}.{}.pred {}, 0, {}", form == 11 ? "bar.red" : "barrier.red", rest & 16 ? "and" : "or",
           made, given);
      line("selp.u32 {0}, 1, {0}, {1}", to, made);
    }
  } else if (form == 13 && countAllowed) {
    line("bar.sync {}, {}", (rest >> 4) % 6, 32 * warps());
  } else if (form == 14 && countAllowed) {
    std::string id = word();
    line("and.b32 {}, {}, 3", id, uniform(rest));
    line("bar.sync {}", id);
  } else {
    line("bar.sync 0");
  }
  shared = {};
}

void Emitter::meet() {
  line("bar.sync 0");
  shared = {};
}

void Emitter::barrierStatement(const Node &node, const Context &context) {
  // Only few kernels have thread counts and run-time ids, by the statement's n[1].
  bool rare = exited == Exited::Nobody && !current && node.n[1] % 8 == 0;
  if (context.uniform)
    barrier(node.n[0], rare);
  else if (!context.mask.empty() && node.n[1] % 4 == 1)
    line("bar.warp.sync {}", context.mask);
}

/// All atomics on total i use one operation.
void Emitter::sharedAtomic(const Node &node, const Context &context) {
  static constexpr const char *operations[] = {"add.u32", "min.u32", "max.u32", "or.b32",
                                               "xor.b32", "and.b32", "add.u32", "inc.u32"};
  if (!usesShared || current)
    return;
  if (shared.totalsRead) {
    if (!context.uniform)
      return;
    meet();
  }
  unsigned at = node.n[0] % sharedTotals;
  std::string value = at == 7 ? "1000000" : varying(node.n[1]);
  if (node.n[2] & 1)
    line("red.shared.{} [s_totals+{}], {}", operations[at], 4 * at, value);
  else
    line("atom.shared.{} %sink, [s_totals+{}], {}", operations[at], 4 * at, value);
  shared.added = true;
}

void Emitter::sharedTotal(const Node &node, const Context &context) {
  if (!usesShared || current || !context.uniform)
    return;
  if (shared.added)
    barrier(node.n[2], false);
  std::string x = word();
  line("ld.shared.u32 {}, [s_totals+{}]", x, 4 * (node.n[0] % sharedTotals));
  line("mad.lo.u32 {0}, {0}, 7, {1}", varying(node.n[1]), x);
  shared.totalsRead = true;
}

/// Returns the address of the slot of `thread` (a register or a number of threads).
std::string Emitter::slotOfRegion(unsigned region, std::string_view thread) {
  static constexpr const char *names[] = {"s_zero", "s_one", "s_two"};
  std::string base = word(), address = word();
  line("mov.u32 {}, {}", base, region == 2 && program.dynamicShared ? "s_dynamic" : names[region]);
  line("mad.lo.u32 {}, {}, 4, {}", address, thread, base);
  return address;
}

void Emitter::writeRegion(unsigned region, const Node &node) {
  std::string address = slotOfRegion(region, "%tl");
  line("st.shared.u32 [{}], {}", address, varying(node.n[1]));
}

void Emitter::readRegion(unsigned region, const std::string &thread, const Node &node) {
  std::string address = slotOfRegion(region, thread), x = word();
  line("ld.shared.u32 {}, [{}]", x, address);
  line("mad.lo.u32 {0}, {0}, 13, {1}", varying(node.n[1] >> 8), x);
  shared.read[region] = true;
}

void Emitter::exchange(const Node &node, const Context &context) {
  if (!usesShared || current || !context.uniform)
    return;
  unsigned region = node.n[0] % regions;
  if (shared.read[region])
    barrier(node.n[2] >> 8, false);
  writeRegion(region, node);
  barrier(node.n[2], false);
  std::string other = word();
  if (node.n[0] & 256) {
    line("sub.u32 {}, {}, %tl", other, threads() - 1);
  } else {
    line("add.u32 {}, %tl, {}", other, 1 + node.n[3] % 63);
    line("rem.u32 {0}, {0}, {1}", other, threads());
  }
  readRegion(region, other, node);
  if (node.n[4] % 3 == 0)
    barrier(node.n[4] >> 4, false);
}

/// Emits a barrier in either arm of a branch; the two arms wait for each other.
void Emitter::splitBarrier(const Node &node, const Context &context) {
  if (!context.uniform || current)
    return;
  Reach reach = reachOf(node);
  Context within = inner(context, reach);
  if (reach == Reach::Threads)
    within.mask.clear();
  // The barrier may be aligned only if all threads of a warp take the same arm.
  const char *form = reach == Reach::Warp && exited != Exited::Lanes && node.n[2] & 1
                         ? "bar.sync"
                         : "barrier.sync";
  std::string taking = condition(reach, node.n[1]);
  std::string otherwise = label(), end = label();
  line("@!{} bra {}", taking, otherwise);
  statements(node.body, within);
  line("{} {}", form, node.n[3] % 3);
  line("bra {}", end);
  place(otherwise);
  statements(node.otherwise, within);
  line("{} {}", form, node.n[3] % 3);
  place(end);
  shared = {};
}

/// Emits a barrier of the first warps alone. Ids 8 to 11 are reserved for it.
void Emitter::partBarrier(const Node &node, const Context &context) {
  std::uint32_t wholeWarps = threads() / 32;
  if (!usesShared || current || !context.uniform || exited != Exited::Nobody || wholeWarps == 0)
    return;
  unsigned region = node.n[0] % regions;
  std::uint32_t members = 32 * (1 + node.n[2] % wholeWarps);
  std::string after = label(), other = word();
  if (shared.read[region])
    meet();
  std::string outside = predicate();
  line("setp.ge.u32 {}, %tl, {}", outside, members);
  line("@{} bra {}", outside, after);
  writeRegion(region, node);
  line("{} {}, {}", node.n[3] & 1 ? "bar.sync" : "barrier.sync", 8 + (node.n[3] >> 1) % 4, members);
  line("add.u32 {}, %tl, {}", other, 1 + node.n[4] % 31);
  line("rem.u32 {0}, {0}, {1}", other, members);
  readRegion(region, other, node);
  place(after);
  meet();
}

/// The first warps write and arrive; the other warps wait and read. Ids 12 to 15 are reserved for
/// it.
void Emitter::arrival(const Node &node, const Context &context) {
  if (!usesShared || current || !context.uniform || exited != Exited::Nobody || warps() < 2)
    return;
  unsigned region = node.n[0] % regions;
  std::uint32_t writers = 32 * (1 + node.n[2] % (warps() - 1));
  std::uint32_t id = 12 + (node.n[3] >> 1) % 4;
  std::string readers = label(), end = label(), other = word();
  if (shared.read[region])
    meet();
  std::string reads = predicate();
  line("setp.ge.u32 {}, %tl, {}", reads, writers);
  line("@{} bra {}", reads, readers);
  writeRegion(region, node);
  line("{} {}, {}", node.n[3] & 1 ? "bar.arrive" : "barrier.arrive", id, 32 * warps());
  line("bra {}", end);
  place(readers);
  line("{} {}, {}", node.n[4] & 1 ? "bar.sync" : "barrier.sync", id, 32 * warps());
  line("rem.u32 {}, %tl, {}", other, writers);
  readRegion(region, other, node);
  place(end);
  meet();
}

void Emitter::shuffle(const Node &node, const Context &context) {
  std::string x = word(), from = word();
  // A missing lane gives no value.
  bool whole = exited != Exited::Lanes && context.warpUniform && threads() % 32 == 0 && !current;
  if (whole) {
    static constexpr const char *modes[] = {"bfly.b32", "down.b32", "up.b32", "idx.b32"};
    std::uint32_t mode = node.n[2] % 4;
    line("shfl.sync.{} {}|{}, {}, {}, {}, {}", modes[mode], x, predicate(), varying(node.n[1]),
         node.n[3] % 32, mode == 2 ? 0 : 31, context.mask);
  } else if (exited != Exited::Lanes && !current) {
    // `from` becomes the lowest lane of the mask.
    line("mov.b32 {}, {}", from, context.mask);
    line("brev.b32 {0}, {0}", from);
    line("clz.b32 {0}, {0}", from);
    line("shfl.sync.idx.b32 {}, {}, {}, 31, {}", x, varying(node.n[1]), from, context.mask);
  } else {
    line("shfl.sync.idx.b32 {}, {}, %lane, 31, {}", x, varying(node.n[1]), context.mask);
  }
  line("xor.b32 {0}, {0}, {1}", varying(node.n[4]), x);
}

void Emitter::warp(const Node &node, const Context &context) {
  static constexpr const char *votes[] = {"all", "any", "uni"};
  static constexpr const char *reductions[] = {"add.u32", "min.u32", "max.s32", "and.b32",
                                               "or.b32",  "xor.b32", "min.s32", "add.s32"};
  if (context.mask.empty())
    return;
  std::string x = word(), value = varying(node.n[1]), to = varying(node.n[4]);
  std::string given = predicate(), made = predicate();
  line("and.b32 {}, {}, 3", x, value);
  line("setp.eq.u32 {}, {}, 1", given, x);
  switch (node.n[0] % 8) {
  case 0:
  case 1:
    return shuffle(node, context);
  case 2:
    line("vote.sync.ballot.b32 {}, {}, {}", x, given, context.mask);
    break;
  case 3:
    line("vote.sync.{}.pred {}, {}{}, {}", votes[node.n[2] % 3], made, node.n[3] & 1 ? "!" : "",
         given, context.mask);
    line("selp.b32 {}, 77, 5, {}", x, made);
    break;
  case 4:
    line("match.any.sync.b32 {}, {}, {}", x, x, context.mask);
    break;
  case 5:
    line("match.all.sync.b32 {0}|{1}, {0}, {2}", x, made, context.mask);
    break;
  case 6:
    line("redux.sync.{} {}, {}, {}", reductions[node.n[2] % 8], x, value, context.mask);
    break;
  default:
    line("bar.warp.sync {}", context.mask);
  }
  line("mad.lo.u32 {0}, {0}, 3, {1}", to, x);
}

} // namespace tally::verify
