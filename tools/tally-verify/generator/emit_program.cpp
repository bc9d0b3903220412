// The module around the statements: parameters, functions, and the kernel's first and last lines.
#include "emitter.h"

#include <algorithm>

namespace tally::verify {

namespace {

constexpr std::uint32_t inputWords = 64, accumulatorWords = 64;

} // namespace

Emitter::Emitter(const Program &program)
    : program(program), random(program.seed ^ (std::uint64_t{program.layout} << 20)) {}

void Emitter::SharedState::join(const SharedState &other) {
  for (unsigned i = 0; i < regions; ++i)
    read[i] |= other.read[i];
  added |= other.added;
  totalsRead |= other.totalsRead;
}

void Emitter::noise() {
  if (!program.noise)
    return;
  std::uint64_t draw = random.below(24);
  if (draw == 0)
    text += fmt::format("\t.loc 1 {} 3\n", 1 + random.below(300));
  else if (draw == 1)
    text += "\t// a remark; with a { brace and a %ctaid.x\n";
  else if (draw == 2)
    text += "\n";
}

void Emitter::collectUses(const std::vector<Node> &nodes) {
  for (const Node &node : nodes) {
    switch (node.kind) {
    case NodeKind::SharedAtomic:
    case NodeKind::SharedTotal:
    case NodeKind::Exchange:
    case NodeKind::PartBarrier:
    case NodeKind::Arrival:
      usesShared = true;
      break;
    case NodeKind::Local:
      usesLocal = true;
      break;
    case NodeKind::Ticket:
    case NodeKind::LookBack:
      usesBoard = true;
      break;
    default:
      break;
    }
    collectUses(node.body);
    collectUses(node.otherwise);
  }
}

void Emitter::collectParameters() {
  auto number = [&](std::uint64_t bound) { return random.below(bound); };
  values = {
      {"p_out", ".param .u64 p_out", fmt::format("ptr:u32:{}:zero", threads() * blocks() * 4)},
      {"p_in", ".param .u64 p_in", fmt::format("ptr:u32:{}:random:{}", inputWords, number(100))},
      {"p_acc", ".param .u64 .ptr .global .align 8 p_acc",
       fmt::format("ptr:u32:{}:random:{}", accumulatorWords, number(100))}};
  if (usesBoard)
    values.push_back(
        {"p_board", ".param .u64 p_board", fmt::format("ptr:u32:{}:zero", 3 * blocks() + 2)});
  std::string bytes;
  for (int i = 0; i < 24; ++i)
    bytes += fmt::format("{:02x}", number(256));
  const Value more[] = {
      {"p_u8", ".param .u8 p_u8", fmt::format("u8:{}", number(256))},
      {"p_u16", ".param .u16 p_u16", fmt::format("u16:{}", number(65536))},
      {"p_u32", ".param .u32 p_u32", fmt::format("u32:{}", number(1u << 31))},
      {"p_u64", ".param .u64 p_u64", fmt::format("u64:{}", random.next())},
      {"p_f32", ".param .f32 p_f32", fmt::format("f32:{}.5", number(100))},
      {"p_bytes", ".param .align 4 .b8 p_bytes[24]", fmt::format("bytes:{}", bytes)}};
  for (const Value &value : more)
    if (number(2) == 0)
      values.push_back(value);
  for (std::size_t i = values.size(); i > 1; --i)
    std::swap(values[i - 1], values[random.below(i)]);
}

void Emitter::header() {
  static constexpr const char *versions[] = {"8.0", "8.3", "7.8"};
  text += "// A generated kernel; tally-verify --generate makes it again from its seed.\n";
  text +=
      fmt::format(".version {}\n.target sm_80\n.address_size 64\n\n", versions[program.layout % 3]);
  if (program.noise)
    text += ".file 1 \"generated.cu\"\n";
}

void Emitter::variables() {
  if (program.withoutParameters) {
    text += fmt::format(".global .align 16 .b32 m_out[{}];\n", threads() * blocks() * 4);
    text += fmt::format(".global .align 16 .b32 m_in[{}] = {{", inputWords);
    for (std::uint32_t i = 0; i < inputWords; ++i)
      text += fmt::format("{}{}", i ? ", " : "", random.below(1u << 31));
    text += fmt::format("}};\n.global .align 16 .b32 m_acc[{}];\n", accumulatorWords);
    text += fmt::format(".global .align 16 .b32 m_board[{}];\n", 3 * blocks() + 2);
  }
  if (usesShared && program.dynamicShared)
    text += ".extern .shared .align 16 .b8 s_dynamic[];\n";
  if (usesShared && program.layout & 16)
    text += fmt::format(".shared .align 16 .b8 s_one[{}];\n", 4 * threads());
}

std::string Emitter::registers() const {
  return fmt::format("\t.reg .pred %p<{}>;\n"
                     "\t.reg .b16 %h<4>;\n"
                     "\t.reg .b32 %v<8>, %u<4>, %x<{}>;\n"
                     "\t.reg .b32 %tl, %bl, %gid, %lane, %warp, %sink, %arg0, %arg1, %mask, %dep;\n"
                     "\t.reg .b64 %w<{}>, %own, %out, %in, %acc, %board, %sink64;\n"
                     "\t.reg .f32 %f<4>;\n",
                     predicates + 1, words + 1, wideWords + 1);
}

/// Computes the thread's position in its block.
void Emitter::position() {
  std::string read[5];
  int index = 0;
  for (const char *each : {"%tid.x", "%tid.y", "%tid.z", "%ntid.x", "%ntid.y"}) {
    read[index] = word();
    line("mov.u32 {}, {}", read[index++], each);
  }
  line("mad.lo.u32 %tl, {}, {}, {}", read[2], read[4], read[1]);
  line("mad.lo.u32 %tl, %tl, {}, {}", read[3], read[0]);
  line("and.b32 %lane, %tl, 31");
  line("shr.u32 %warp, %tl, 5");
}

void Emitter::initialiseMemory() {
  if (usesLocal)
    for (unsigned i = 0; i < 8; ++i)
      line("st.local.u32 [loc+{}], %v{}", 4 * i, i);
  if (!usesShared)
    return;
  for (unsigned region = 0; region < regions; ++region)
    line("st.shared.u32 [{}], %v{}", slotOfRegion(region, "%tl"), region);
  std::string after = label(), other = predicate();
  line("setp.ne.u32 {}, %tl, 0", other);
  line("@{} bra {}", other, after);
  for (unsigned i = 0; i < sharedTotals; ++i)
    line("st.shared.u32 [s_totals+{}], {}", 4 * i, i * 0x01234567u);
  place(after);
  line("bar.sync 0");
}

void Emitter::kernelStart() {
  for (const auto &[name, base] :
       {std::pair{"out", "%out"}, {"in", "%in"}, {"acc", "%acc"}, {"board", "%board"}}) {
    if (program.withoutParameters) {
      line("mov.u64 {}, m_{}", base, name);
    } else if (std::string_view(name) != "board" || usesBoard) {
      line("ld.param.u64 {}, [p_{}]", base, name);
      line("cvta.to.global.u64 {0}, {0}", base);
    }
  }
  position();
  std::string read[5];
  int index = 0;
  for (const char *each : {"%ctaid.z", "%nctaid.y", "%ctaid.y", "%nctaid.x", "%ctaid.x"}) {
    read[index] = word();
    line("mov.u32 {}, {}", read[index++], each);
  }
  line("mad.lo.u32 %bl, {}, {}, {}", read[0], read[1], read[2]);
  line("mad.lo.u32 %bl, %bl, {}, {}", read[3], read[4]);
  line("mad.lo.u32 %gid, %bl, {}, %tl", threads());
  line("mul.wide.u32 %own, %gid, 16");
  line("add.s64 %own, %own, %out");
  for (unsigned i = 0; i < 8; ++i)
    line("mad.lo.u32 %v{}, {}, {}, {}", i, i % 2 ? "%tl" : "%gid", 0x9e3779b1u + 2 * i, i);
  line("mov.u32 %u0, %bl");
  line("mov.u32 %u1, %nctaid.x");
  line("mov.u32 %u2, %ctaid.y");
  line("mov.u32 %u3, 1234567");
  if (program.delay) {
    std::string left = word(), read = word(), more = predicate();
    line("and.b32 {}, %tl, 3", left);
    line("add.u32 {0}, {0}, {1}", left, program.delay);
    place("$delay");
    line("ld.global.u32 {}, [%in+4]", read);
    line("mad.lo.u32 %v0, %v0, 1664525, {}", read);
    line("add.s32 {0}, {0}, -1", left);
    line("setp.ne.u32 {}, {}, 0", more, left);
    line("@{} bra $delay", more);
  }
  initialiseMemory();
}

void Emitter::end() {
  for (unsigned i = 1; i < 8; ++i)
    line("mad.lo.u32 %v0, %v0, 31, %v{}", i);
  for (unsigned i = 0; i < 4; ++i)
    line("mad.lo.u32 %v0, %v0, 31, %u{}", i);
  line("st.global.u32 [{}+4], %v0", ownSlots(program.layout >> 8));
  place("$done");
  switch ((program.layout >> 5) % 4) {
  case 0:
    line("exit");
    break;
  case 1:
    // Any instruction may be the last one: control runs off the end.
    line("mov.u32 %sink, 0");
    break;
  default:
    line("ret");
  }
}

std::string Emitter::attributes() const {
  const Dim3 &block = program.shape.block;
  std::string extents = fmt::format("{}, {}, {}", block.x, block.y, block.z);
  switch ((program.layout >> 12) % 6) {
  case 0:
    return fmt::format(".maxntid {}\n", extents);
  case 1:
    return fmt::format(".reqntid {}\n", extents);
  case 2:
    return fmt::format(".maxntid {}\n.minnctapersm 1\n", extents);
  default:
    return {};
  }
}

void Emitter::kernel() {
  text += program.layout & 8 ? ".visible .entry generated(" : ".entry generated (";
  if (!program.withoutParameters)
    for (std::size_t i = 0; i < values.size(); ++i)
      text += fmt::format("{}\n\t{}", i ? "," : "", values[i].declaration);
  text += fmt::format("\n)\n{}{{\n", attributes());
  words = wideWords = predicates = 0;
  std::size_t declarations = text.size();
  if (usesLocal)
    text += "\t.local .align 16 .b8 loc[32];\n";
  if (usesShared) {
    text += fmt::format("\t.shared .align 4 .b8 s_zero[{}];\n", 4 * threads());
    if (!(program.layout & 16))
      text += fmt::format("\t.shared .align 16 .b8 s_one[{}];\n", 4 * threads());
    if (!program.dynamicShared)
      text += fmt::format("\t.shared .align 4 .b8 s_two[{}];\n", 4 * threads());
    text += fmt::format("\t.shared .align 8 .b8 s_totals[{}];\n", 4 * sharedTotals);
  }
  kernelStart();
  statements(program.body, {});
  end();
  text += "}\n";
  text.insert(declarations, registers());
}

/// Emits a function (a, b, mask, recursion depth, own slots, input, accumulators) -> one word.
void Emitter::function(unsigned index) {
  current = &program.functions[index];
  currentIndex = index;
  text += fmt::format("\n.func (.param .b32 result) device_{}(\n\t.param .b32 a, .param .b32 b, "
                      ".param .b32 mask, .param .b32 depth,\n\t.param .b64 own, .param .b64 in, "
                      ".param .b64 acc\n)\n{{\n",
                      index);
  words = wideWords = predicates = 0;
  std::size_t declarations = text.size();
  bool outerLocal = usesLocal, outerShared = usesShared;
  usesLocal = false;
  collectUses(current->body);
  usesShared = outerShared;
  if (usesLocal)
    text += "\t.local .align 16 .b8 loc[32];\n";
  for (const auto &[name, reg] :
       {std::pair{"a", "%arg0"}, {"b", "%arg1"}, {"mask", "%mask"}, {"depth", "%dep"}})
    line("ld.param.b32 {}, [{}]", reg, name);
  for (const auto &[name, reg] : {std::pair{"own", "%own"}, {"in", "%in"}, {"acc", "%acc"}})
    line("ld.param.b64 {}, [{}]", reg, name);
  position();
  for (unsigned i = 0; i < 8; ++i)
    line("mad.lo.u32 %v{}, {}, {}, {}", i, i % 2 ? "%arg0" : "%arg1", 0x85ebca6bu + 2 * i, i);
  line("mov.u32 %u0, %dep");
  line("mov.u32 %u1, {}", current->readsGrid ? "%ctaid.x" : "%ntid.x");
  line("mov.u32 %u2, {}", current->readsGrid ? "%nctaid.y" : "%ntid.y");
  line("mov.u32 %u3, 7654321");
  if (usesLocal)
    for (unsigned i = 0; i < 8; ++i)
      line("st.local.u32 [loc+{}], %v{}", 4 * i, i);
  line("st.param.b32 [result], %v0");
  exited = Exited::Lanes;
  Context context;
  context.uniform = context.warpUniform = current->hasBarrier;
  context.mask = "%mask";
  context.depth = 1;
  statements(current->body, context);
  line("xor.b32 %v0, %v0, %v1");
  line("st.param.b32 [result], %v0");
  place("$return");
  line("ret");
  text += "}\n";
  text.insert(declarations, registers());
  usesLocal = outerLocal;
  current = nullptr;
  exited = Exited::Nobody;
  shared = {};
  someLeft = false;
}

GeneratedKernel Emitter::run() {
  usesLocal = false;
  collectUses(program.body);
  bool kernelUsesLocal = usesLocal;
  if (!program.withoutParameters)
    collectParameters();
  header();
  variables();
  for (unsigned i = 0; i < program.functions.size(); ++i)
    function(i);
  usesLocal = kernelUsesLocal;
  kernel();
  GeneratedKernel result{std::move(text), "generated", program.shape, {}};
  for (const Value &value : values)
    result.arguments.push_back(value.argument);
  if (usesShared && program.dynamicShared)
    result.shape.dynamicSharedBytes = 4 * threads();
  return result;
}

GeneratedKernel emit(const Program &program) { return Emitter(program).run(); }

} // namespace tally::verify
