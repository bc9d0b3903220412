// Statements that compute, load and store, and statements that wait for other blocks.
#include "emitter.h"

namespace tally::verify {

namespace {

/// {0} is the result, {1} to {3} are the operands.
constexpr const char *operations[] = {
    "add.u32 {0}, {1}, {2}",          "sub.s32 {0}, {1}, {2}",
    "mul.lo.u32 {0}, {1}, {2}",       "mul.hi.u32 {0}, {1}, {2}",
    "mad.lo.s32 {0}, {1}, {2}, {3}",  "and.b32 {0}, {1}, {2}",
    "or.b32 {0}, {1}, {2}",           "xor.b32 {0}, {1}, {2}",
    "shl.b32 {0}, {1}, {2}",          "shr.u32 {0}, {1}, {2}",
    "shr.s32 {0}, {1}, {2}",          "min.u32 {0}, {1}, {2}",
    "max.s32 {0}, {1}, {2}",          "lop3.b32 {0}, {1}, {2}, {3}, 0x96",
    "prmt.b32 {0}, {1}, {2}, 0x4152", "shf.l.wrap.b32 {0}, {1}, {2}, {3}",
    "bfe.u32 {0}, {1}, 3, 11",        "sad.u32 {0}, {1}, {2}, {3}",
};
constexpr const char *unaryOperations[] = {
    "not.b32 {0}, {1}",  "popc.b32 {0}, {1}", "clz.b32 {0}, {1}",
    "brev.b32 {0}, {1}", "neg.s32 {0}, {1}",  "abs.s32 {0}, {1}",
};
constexpr const char *comparisons[] = {"eq.u32", "lt.u32", "ge.s32", "ne.s32", "hi.u32"};

} // namespace

/// Returns a new register with a special register's value, read at this place.
std::string Emitter::special(std::uint32_t number, bool onlyUniform) {
  static constexpr const char *grid[] = {"%ctaid.x",  "%ctaid.y",  "%ctaid.z", "%nctaid.x",
                                         "%nctaid.y", "%nctaid.z", "%ctaid.x", "%ctaid.y"};
  static constexpr const char *block[] = {"%ntid.x", "%ntid.y", "%ntid.z", "%ntid.x"};
  static constexpr const char *own[] = {"%tid.x", "%tid.y", "%laneid", "%lanemask_lt"};
  static constexpr const char *types[] = {"u32", "b32", "s32", "u32"};
  std::string result = word();
  const char *source = block[number % 4];
  if (!onlyUniform && number & 16)
    source = own[number % 4];
  else if (!current || current->readsGrid)
    source = grid[number % 8];
  if (number & 32 && std::string_view(source).find("lane") == std::string_view::npos) {
    std::string w = wideWord();
    line("cvt.u64.u32 {}, {}", w, source);
    line("cvt.u32.u64 {}, {}", result, w);
  } else {
    line("mov.{} {}, {}", types[(number >> 6) % 4], result, source);
  }
  return result;
}

std::string Emitter::operand(std::uint32_t number) {
  switch (number % 16) {
  case 8:
  case 9:
    return uniform(number >> 4);
  case 10:
    return fmt::format("{}", (number >> 4) % 40);
  case 11:
    return fmt::format("{}", number >> 4);
  case 12:
  case 13:
    return special(number >> 4, false);
  default:
    return varying(number >> 4);
  }
}

std::string Emitter::uniformOperand(std::uint32_t number) {
  switch (number % 8) {
  case 0:
    return fmt::format("{}", (number >> 4) % 100);
  case 1:
  case 2:
  case 3:
    return special(number >> 4, true);
  default:
    return uniform(number >> 4);
  }
}

void Emitter::operation(const Node &node, const Context &) {
  std::string to = varying(node.n[0]);
  std::uint32_t form = (node.n[0] >> 8) % 32;
  if (form < std::size(operations)) {
    std::string a = operand(node.n[1]), b = operand(node.n[2]), c = operand(node.n[3]);
    // Some instructions do not take a literal as the first operand.
    if (a.front() != '%')
      a = varying(node.n[1]);
    line("{}", fmt::format(fmt::runtime(operations[form]), to, a, b, c));
  } else if (form < 24) {
    line("{}", fmt::format(fmt::runtime(unaryOperations[form - 18]), to, varying(node.n[1])));
  } else if (form < 28) {
    std::string a = operand(node.n[2]), b = operand(node.n[3]);
    std::string p = predicate();
    line("setp.{} {}, {}, {}", comparisons[node.n[1] % 5], p, varying(node.n[1] >> 4), b);
    if (form & 1)
      line("selp.b32 {}, {}, {}, {}", to, varying(node.n[2] >> 8), a, p);
    else
      line("@{}{} mov.b32 {}, {}", form & 2 ? "!" : "", p, to, a);
  } else if (form < 30) {
    std::string divisor = word();
    line("or.b32 {}, {}, 1", divisor, varying(node.n[2]));
    line("{}.u32 {}, {}, {}", form & 1 ? "div" : "rem", to, varying(node.n[1]), divisor);
  } else {
    std::string low = word();
    line("cvt.u16.u32 %h0, {}", varying(node.n[1]));
    line("mul.lo.u16 %h1, %h0, 77");
    line("cvt.u32.u16 {}, %h1", low);
    line("add.u32 {}, {}, {}", to, low, varying(node.n[2]));
  }
}

/// Where not all threads of the block come, the result goes to a varying register.
void Emitter::uniformOperation(const Node &node, const Context &context) {
  std::string to = context.uniform ? uniform(node.n[0]) : varying(node.n[0]);
  std::uint32_t form = (node.n[0] >> 8) % 14;
  std::string b = uniformOperand(node.n[2]), c = uniformOperand(node.n[3]);
  line("{}", fmt::format(fmt::runtime(operations[form]), to, uniform(node.n[1]), b, c));
}

void Emitter::wide(const Node &node) {
  std::string to = varying(node.n[0]), a = varying(node.n[1]), b = operand(node.n[2]);
  std::string high = word(), low = word(), w = wideWord();
  switch ((node.n[0] >> 8) % 4) {
  case 0: {
    line("add.cc.u32 {}, {}, {}", low, a, b);
    std::string c = operand(node.n[3]);
    line("addc.cc.u32 {}, {}, {}", high, varying(node.n[3] >> 8), c);
    line("addc.u32 {}, {}, {}", to, low, high);
    break;
  }
  case 1: {
    line("sub.cc.u32 {}, {}, {}", low, a, b);
    std::string c = operand(node.n[3]);
    line("subc.u32 {}, {}, {}", high, varying(node.n[3] >> 8), c);
    line("xor.b32 {}, {}, {}", to, low, high);
    break;
  }
  case 2:
    line("mul.wide.u32 {}, {}, {}", w, a, b);
    line("shr.u64 {0}, {0}, {1}", w, node.n[3] % 40);
    line("cvt.u32.u64 {}, {}", to, w);
    break;
  default:
    line("mov.b64 {}, {{{}, {}}}", w, a, varying(node.n[3]));
    line("mad.lo.u64 {0}, {0}, {1}, {0}", w, node.n[4]);
    line("mov.b64 {{{}, {}}}, {}", low, high, w);
    line("xor.b32 {}, {}, {}", to, low, high);
  }
}

void Emitter::floating(const Node &node) {
  std::string to = varying(node.n[0]), small = word();
  line("and.b32 {}, {}, 65535", small, varying(node.n[1]));
  line("cvt.rn.f32.u32 %f0, {}", small);
  switch ((node.n[0] >> 8) % 4) {
  case 0:
    line("add.rn.f32 %f1, %f0, 0f40490FDB");
    break;
  case 1:
    line("mul.rn.f32 %f1, %f0, 0f3EAAAAAB");
    break;
  case 2:
    line("fma.rn.f32 %f1, %f0, 0f3F9E0652, 0f42280000");
    break;
  default:
    line("max.f32 %f1, %f0, 0f47000000");
  }
  if (node.n[2] & 1)
    line("cvt.rzi.u32.f32 {}, %f1", to);
  else
    line("mov.b32 {}, %f1", to);
}

void Emitter::load(const Node &node) {
  static constexpr const char *forms[] = {"ld.global", "ld.global.nc", "ld.global.ca", "ld.global"};
  std::string index = word(), address = wideWord(), to = varying(node.n[0]);
  unsigned width = 1u << (node.n[2] % 3);
  line("and.b32 {}, {}, {}", index, operand(node.n[1]), 63 & ~(width - 1));
  line("mul.wide.u32 {}, {}, 4", address, index);
  line("add.s64 {0}, {0}, %in", address);
  const char *form = forms[(node.n[2] >> 4) % 4];
  if (width == 1) {
    line("{}.u32 {}, [{}]", form, to, address);
    return;
  }
  std::string a = word(), b = word(), c = word(), d = word();
  if (width == 2) {
    line("{}.v2.u32 {{{}, {}}}, [{}]", form, a, b, address);
    line("sub.u32 {}, {}, {}", to, a, b);
  } else {
    line("{}.v4.b32 {{{}, {}, {}, {}}}, [{}]", form, a, b, c, d, address);
    line("lop3.b32 {}, {}, {}, {}, 0x96", to, a, b, c);
    line("add.u32 {0}, {0}, {1}", to, d);
  }
}

/// Returns the address of the thread's own 16 bytes, computed anew or kept from the start.
std::string Emitter::ownSlots(std::uint32_t number) {
  if (current || number & 3)
    return "%own";
  std::string x = word(), y = word(), w = wideWord();
  line("mov.u32 {}, %ctaid.z", x);
  line("mov.u32 {}, %nctaid.y", y);
  line("mul.lo.u32 {0}, {0}, {1}", x, y);
  line("mov.u32 {}, %ctaid.y", y);
  line("add.u32 {0}, {0}, {1}", x, y);
  line("mov.u32 {}, %nctaid.x", y);
  line("mul.lo.u32 {0}, {0}, {1}", x, y);
  line("mov.u32 {}, %ctaid.x", y);
  line("add.u32 {0}, {0}, {1}", x, y);
  line("mad.lo.u32 {0}, {0}, {1}, %tl", x, threads());
  line("mad.wide.u32 {}, {}, 16, %out", w, x);
  return w;
}

void Emitter::store(const Node &node) {
  std::string address = ownSlots(node.n[0] >> 4);
  switch (node.n[0] % 4) {
  case 0:
  case 1: {
    // A read-modify-write, which shows a block that ran twice.
    std::string old = word();
    line("ld.global.u32 {}, [{}]", old, address);
    line("mad.lo.u32 {0}, {0}, 5, {1}", old, varying(node.n[1]));
    line("st.global.u32 [{}], {}", address, old);
    break;
  }
  case 2:
    line("st.global.v2.u32 [{}+8], {{{}, {}}}", address, varying(node.n[1]), varying(node.n[2]));
    break;
  default: {
    std::string value = operand(node.n[1]);
    line("st.global.u32 [{}+12], {}", address, value);
  }
  }
}

void Emitter::parameter(const Node &node) {
  std::vector<const Value *> scalars;
  if (!current)
    for (const Value &value : values)
      if (!value.argument.starts_with("ptr"))
        scalars.push_back(&value);
  if (scalars.empty())
    return;
  const Value &value = *scalars[node.n[1] % scalars.size()];
  std::string to = varying(node.n[0]), x = word(), w = wideWord(), address = wideWord();
  if (value.name == "p_u64") {
    line("ld.param.u64 {}, [p_u64]", w);
    line("cvt.u32.u64 {}, {}", x, w);
  } else if (value.name == "p_bytes") {
    line("and.b32 {}, {}, 20", x, varying(node.n[2]));
    line("cvt.u64.u32 {}, {}", w, x);
    line("mov.b64 {}, p_bytes", address);
    line("add.s64 {0}, {0}, {1}", address, w);
    line("ld.param.u32 {}, [{}]", x, address);
  } else if (value.name == "p_u8") {
    line("ld.param.u8 {}, [p_u8]", x);
  } else if (value.name == "p_u16") {
    line("ld.param.u16 {}, [p_u16]", x);
  } else {
    line("ld.param.b32 {}, [{}]", x, value.name);
  }
  line("mad.lo.u32 {0}, {0}, 3, {1}", to, x);
}

void Emitter::local(const Node &node) {
  std::string index = word(), address = wideWord(), base = wideWord(), old = word();
  line("and.b32 {}, {}, 28", index, varying(node.n[1]));
  line("cvt.u64.u32 {}, {}", address, index);
  line("mov.u64 {}, loc", base);
  line("add.s64 {0}, {0}, {1}", address, base);
  line("ld.local.u32 {}, [{}]", old, address);
  line("st.local.u32 [{}], {}", address, varying(node.n[2]));
  line("xor.b32 {0}, {0}, {1}", varying(node.n[0]), old);
}

/// All atomics on word i of the accumulators use one operation, so the result is independent of the
/// order of blocks.
void Emitter::globalAtomic(const Node &node) {
  static constexpr const char *words32[] = {"add.u32", "min.u32", "max.s32",
                                            "or.b32",  "xor.b32", "and.b32"};
  static constexpr const char *words64[] = {"add.u64", "max.u64", "xor.b64", "min.s64"};
  static constexpr const char *forms[] = {"red.global", "red.relaxed.gpu.global", "atom.global",
                                          "atom.relaxed.gpu.global"};
  std::uint32_t at = (node.n[0] >> 4) % 16;
  const char *form = forms[node.n[0] % 4];
  bool hasResult = std::string_view(form).starts_with("atom");
  std::string value = varying(node.n[1]);
  if (node.n[2] % 4 == 0) {
    std::string w = wideWord();
    line("mad.wide.u32 {}, {}, 77, {}", w, value, node.n[3]);
    line("{}.{} {}[%acc+{}], {}", form, words64[at % 4], hasResult ? "%sink64, " : "", 128 + 8 * at,
         w);
  } else {
    line("{}.{} {}[%acc+{}], {}", form, words32[at % 6], hasResult ? "%sink, " : "", 4 * at, value);
  }
}

/// board[2 * blocks + b] is the value that block b leaves; the ticket and the sum follow.
void Emitter::ticket(const Node &node, const Context &context) {
  if (context.depth != 0 || context.inLoop || tookTicket)
    return;
  tookTicket = true;
  std::string after = label(), again = label(), w = wideWord(), sum = word(), index = word();
  std::string number = word(), last = word(), part = word();
  std::string skip = predicate(), notLast = predicate(), more = predicate();
  line("setp.ne.u32 {}, %tl, 0", skip);
  line("@{} bra {}", skip, after);
  line("mad.wide.u32 {}, %bl, 4, %board", w);
  line("mad.lo.u32 {}, %bl, {}, 17", part, node.n[1] | 1);
  line("st.global.u32 [{}+{}], {}", w, 8 * blocks(), part);
  line("membar.gl");
  line("mov.u32 {}, %nctaid.x", last);
  for (const char *extent : {"%nctaid.y", "%nctaid.z"}) {
    line("mov.u32 {}, {}", number, extent);
    line("mul.lo.u32 {0}, {0}, {1}", last, number);
  }
  line("add.s32 {0}, {0}, -1", last);
  line("atom.global.inc.u32 {}, [%board+{}], {}", number, 12 * blocks(), last);
  line("setp.ne.u32 {}, {}, {}", notLast, number, last);
  line("@{} bra {}", notLast, after);
  line("membar.gl");
  line("mov.u32 {}, 0", sum);
  line("mov.u32 {}, 0", index);
  place(again);
  line("mad.wide.u32 {}, {}, 4, %board", w, index);
  line("ld.volatile.global.u32 {}, [{}+{}]", part, w, 8 * blocks());
  line("add.u32 {0}, {0}, {1}", sum, part);
  line("add.u32 {0}, {0}, 1", index);
  line("setp.le.u32 {}, {}, {}", more, index, last);
  line("@{} bra {}", more, again);
  line("st.global.u32 [%board+{}], {}", 12 * blocks() + 4, sum);
  place(after);
}

/// board[2 * b] tells whether block b is done; board[2 * b + 1] is the sum of all blocks up to b.
void Emitter::lookBack(const Node &node, const Context &context) {
  // The next block would wait forever for a block that left before.
  if (context.depth != 0 || context.inLoop || someLeft || lookedBack)
    return;
  lookedBack = true;
  std::string after = label(), spin = label(), publish = label();
  std::string w = wideWord(), sum = word(), flag = word();
  std::string skip = predicate(), first = predicate(), early = predicate();
  line("setp.ne.u32 {}, %tl, 0", skip);
  line("@{} bra {}", skip, after);
  line("mad.wide.u32 {}, %bl, 8, %board", w);
  line("mov.u32 {}, 0", sum);
  line("setp.eq.u32 {}, %bl, 0", first);
  line("@{} bra {}", first, publish);
  place(spin);
  line("ld.acquire.gpu.global.u32 {}, [{}+-8]", flag, w);
  line("setp.eq.u32 {}, {}, 0", early, flag);
  line("@{} bra {}", early, spin);
  line("ld.relaxed.gpu.global.u32 {}, [{}+-4]", sum, w);
  place(publish);
  line("mad.lo.u32 {0}, {0}, 3, {1}", sum, node.n[1] % 1000);
  line("add.u32 {0}, {0}, %bl", sum);
  line("st.relaxed.gpu.global.u32 [{}+4], {}", w, sum);
  line("st.release.gpu.global.u32 [{}], 1", w);
  line("st.global.u32 [%own+8], {}", sum);
  place(after);
}

} // namespace tally::verify
