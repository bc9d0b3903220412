#include "generated_module.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <random>
#include <vector>

namespace tally::benchmarks {
namespace {

/// The parts of a kernel besides loads and arithmetic.
struct Traits {
  bool shared = false;    ///< a tile in shared memory, with barriers
  bool earlyExit = false; ///< threads above a bound leave before the rest
  bool divergent = false; ///< the bound is on the thread's id, not the block's
  bool shuffles = false, matrix = false, atomics = false;
};

/// Writes one kernel. As in nvcc's output, it assigns each register once, except those of loops and
/// branches. It reads most registers soon after, and reads none that may be undefined. So no more
/// registers are alive at any place than a GPU has.
class KernelWriter {
public:
  KernelWriter(std::mt19937_64 &random, int number, Traits traits)
      : random(random), traits(traits), name(fmt::format("_Z9generatedILi{}EEvPKfPfi", number)),
        number(number) {}

  std::string write(std::size_t instructions) {
    start();
    while (count < instructions)
      step();
    line("st.global.f32 \t[%rd{}+{}], %f{};", address, 4 * below(64), lastFloat());
    if (traits.earlyExit)
      label("END");
    line("ret;");
    return header() + body + "\n}\n\n";
  }

private:
  std::size_t below(std::size_t limit) { return random() % limit; }
  /// Chooses a recent register, or now and then one of the first.
  unsigned one(const std::vector<unsigned> &readable) {
    std::size_t which = below(std::min<std::size_t>(readable.size(), 16));
    return below(8) ? readable[readable.size() - 1 - which] : readable[which];
  }
  template <class... T> void line(fmt::format_string<T...> text, T &&...arguments) {
    body += '\t';
    fmt::format_to(std::back_inserter(body), text, std::forward<T>(arguments)...);
    body += '\n';
    ++count;
  }
  void label(std::string_view what) {
    fmt::format_to(std::back_inserter(body), "\n$L__BB{}_{}:\n", number, what);
  }
  unsigned newWord() {
    readableWords.push_back(++words);
    return words;
  }
  unsigned newFloat() {
    readableFloats.push_back(++floats);
    return floats;
  }
  unsigned lastWord() const { return readableWords.back(); }
  unsigned lastFloat() const { return readableFloats.back(); }

  std::string header() const {
    return fmt::format("\t// .globl\t{0}\n.visible .entry {0}(\n"
                       "\t.param .u64 .ptr .align 1 {0}_param_0,\n"
                       "\t.param .u64 .ptr .align 1 {0}_param_1,\n\t.param .u32 {0}_param_2\n)\n"
                       "{1}{{\n\t.reg .pred \t%p<{2}>;\n\t.reg .f32 \t%f<{3}>;\n"
                       "\t.reg .b32 \t%r<{4}>;\n\t.reg .b64 \t%rd<{5}>;\n",
                       name, number % 4 == 0 ? ".maxntid 256, 1, 1\n.minnctapersm 2\n" : "",
                       predicates + 1, floats + 1, words + 1, pointers + 1) +
           (traits.shared
                ? fmt::format("\t// demoted variable\n\t.shared .align 4 .b8 tile_{}[4096];\n\n",
                              number)
                : "\n");
  }

  void start() {
    line("ld.param.u64 \t%rd1, [{}_param_0];", name);
    line("ld.param.u64 \t%rd2, [{}_param_1];", name);
    line("ld.param.u32 \t%r1, [{}_param_2];", name);
    line("cvta.to.global.u64 \t%rd3, %rd1;");
    line("mov.u32 \t%r2, %ctaid.x;");
    line("mov.u32 \t%r3, %ntid.x;");
    line("mov.u32 \t%r4, %tid.x;");
    line("mad.lo.s32 \t%r5, %r2, %r3, %r4;");
    if (number % 3 == 0)
      line("mov.u32 \t%r6, %ctaid.y;");
    else
      line("shl.b32 \t%r6, %r5, 1;");
    line("mul.wide.s32 \t%rd4, %r5, 4;");
    line("add.s64 \t%rd5, %rd3, %rd4;");
    line("mov.f32 \t%f1, 0f00000000;");
    while (words != 6)
      newWord();
    newFloat();
    pointers = address = 5;
    if (!traits.earlyExit)
      return;
    line("setp.ge.s32 \t%p{}, %r{}, %r1;", ++predicates, traits.divergent ? 5 : 2);
    line("@%p{} bra \t$L__BB{}_END;", predicates, number);
  }

  void step() {
    switch (below(traits.matrix ? 9 : 8)) {
    case 0:
    case 1:
      return loads();
    case 2:
      return condition();
    case 3:
      return below(3) ? arithmetic() : loop();
    case 4:
      return traits.shared ? tile() : arithmetic();
    case 5:
      return traits.shuffles ? shuffle() : loads();
    case 6:
      if (traits.atomics && below(8) == 0)
        return line("red.global.add.u32 \t[%rd{}], %r{};", address, lastWord());
      return arithmetic();
    case 8:
      return matrix();
    default:
      return arithmetic();
    }
  }

  void arithmetic() {
    for (std::size_t i = 0, end = 4 + below(12); i != end; ++i) {
      unsigned a = one(readableWords), b = lastWord();
      if (below(3)) {
        unsigned x = one(readableFloats), y = lastFloat(), into = newFloat();
        line("fma.rn.f32 \t%f{}, %f{}, %f{}, 0f3F{:06X};", into, x, y, below(1 << 24));
      } else {
        line("mad.lo.s32 \t%r{}, %r{}, {}, %r{};", newWord(), a, 1 + below(1000), b);
      }
    }
  }

  void loads() {
    unsigned offset = ++pointers;
    line("mul.wide.s32 \t%rd{}, %r{}, 4;", offset, lastWord());
    address = ++pointers;
    line("add.s64 \t%rd{}, %rd3, %rd{};", address, offset);
    unsigned first = floats + 1;
    for (int i = 0; i != 4; ++i)
      newFloat();
    line("ld.global.nc.v4.f32 \t{{%f{}, %f{}, %f{}, %f{}}}, [%rd{}+{}];", first, first + 1,
         first + 2, first + 3, address, 16 * below(256));
    for (int i = 0; i != 4; ++i) {
      unsigned sum = lastFloat();
      line("add.f32 \t%f{}, %f{}, %f{};", newFloat(), first + i, sum);
    }
    if (below(4) == 0)
      line("st.global.v2.f32 \t[%rd{}+{}], {{%f{}, %f{}}};", address, 8 * below(256), first,
           lastFloat());
  }

  void condition() {
    unsigned here = ++labels, before = lastFloat(), joined = newFloat();
    line("mov.f32 \t%f{}, %f{};", joined, before);
    line("setp.lt.s32 \t%p{}, %r{}, {};", ++predicates, lastWord(), below(4096));
    line("@%p{} bra \t$L__BB{}_{};", predicates, number, here);
    std::size_t someWords = readableWords.size(), someFloats = readableFloats.size();
    arithmetic();
    line("mov.f32 \t%f{}, %f{};", joined, lastFloat());
    readableWords.resize(someWords);
    readableFloats.resize(someFloats);
    label(std::to_string(here));
  }

  void loop() {
    unsigned here = ++labels, counter = newWord();
    line("mov.u32 \t%r{}, 0;", counter);
    label(std::to_string(here));
    if (number % 2)
      body += "\t.pragma \"nounroll\";\n";
    loads();
    if (traits.shared && below(2))
      tile();
    arithmetic();
    line("add.s32 \t%r{}, %r{}, 1;", counter, counter);
    line("setp.ne.s32 \t%p{}, %r{}, %r1;", ++predicates, counter);
    line("@%p{} bra \t$L__BB{}_{};", predicates, number, here);
  }

  void tile() {
    unsigned base = newWord(), place = newWord();
    line("mov.u32 \t%r{}, tile_{};", base, number);
    line("mad.lo.s32 \t%r{}, %r4, 4, %r{};", place, base);
    line("st.shared.f32 \t[%r{}], %f{};", place, lastFloat());
    line("bar.sync \t0;");
    for (int i = 0; i != 4; ++i)
      line("ld.shared.f32 \t%f{}, [%r{}+{}];", newFloat(), base, 4 * below(256));
    line("bar.sync \t0;");
  }

  void shuffle() {
    for (int width : {16, 8, 4, 2, 1}) {
      unsigned mine = lastFloat(), from = newWord(), into = newWord();
      line("mov.b32 \t%r{}, %f{};", from, mine);
      line("shfl.sync.bfly.b32 \t%r{}|%p{}, %r{}, {}, 31, -1;", into, ++predicates, from, width);
      unsigned other = newFloat();
      line("mov.b32 \t%f{}, %r{};", other, into);
      line("add.f32 \t%f{}, %f{}, %f{};", newFloat(), mine, other);
    }
  }

  void matrix() {
    for (int i = 0; i != 4; ++i) {
      unsigned from[4], into[4];
      for (unsigned &each : from)
        each = one(readableWords);
      for (unsigned &each : into)
        each = newWord();
      line("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 \t{{%r{},%r{},%r{},%r{}}}, "
           "{{%r{},%r{},%r{},%r{}}}, {{%r{},%r{}}}, {{%r{},%r{},%r{},%r{}}};",
           into[0], into[1], into[2], into[3], from[0], from[1], from[2], from[3], from[0], from[1],
           from[0], from[1], from[2], from[3]);
    }
  }

  std::mt19937_64 &random;
  Traits traits;
  std::string name, body;
  int number;
  std::size_t count = 0;
  unsigned predicates = 0, floats = 0, words = 0, pointers = 0, address = 0, labels = 0;
  std::vector<unsigned> readableFloats, readableWords; ///< assigned on every path to this place
};

Traits chooseTraits(std::mt19937_64 &random) {
  Traits traits;
  std::size_t kind = random() % 100;
  traits.shared = kind >= 50;
  traits.shuffles = kind >= 45 && kind < 65;
  traits.earlyExit = kind < 30 || kind >= 82;
  traits.divergent = kind < 30 || kind >= 93;
  traits.matrix = kind >= 75 && kind < 85;
  traits.atomics = random() % 16 == 0;
  return traits;
}

} // namespace

std::string generateModule(std::size_t bytes) {
  std::mt19937_64 random(2025);
  std::string text = "//\n// Made up\n//\n\n.version 9.0\n.target sm_90\n.address_size 64\n\n";
  text.reserve(bytes + (std::size_t{1} << 21));
  for (int number = 0; text.size() < bytes; ++number) {
    // Log-normal, with the median and the 90th percentile of public kernels.
    double uniform = static_cast<double>(random() >> 11) / 9007199254740992.0;
    double other = static_cast<double>(random() >> 11) / 9007199254740992.0;
    double normal = std::sqrt(-2 * std::log(1 - uniform)) * std::cos(6.283185307179586 * other);
    auto instructions = static_cast<std::size_t>(235 * std::exp(1.58 * normal));
    text += KernelWriter(random, number, chooseTraits(random))
                .write(std::min<std::size_t>(instructions, 30000));
  }
  return text;
}

} // namespace tally::benchmarks
