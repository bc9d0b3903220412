// Runs one instruction on up to 32 values, with one value per lane.
#ifndef TALLY_UNITTESTS_EMULATOR_EVALUATE_H
#define TALLY_UNITTESTS_EMULATOR_EVALUATE_H

#include "harness.h"

#include <bit>

namespace tally::emulator {

template <class T> std::string bitsType() {
  return std::string("b").append(std::to_string(sizeof(T) * 8));
}

/// `code` reads %a, %b, %c and writes %d, whose sizes are those of the types; %p, %q are predicates
/// and %t, %u 32-bit temporaries. Missing operands may be left empty.
template <class D, class A, class B = A, class C = A>
std::vector<D> evaluate(const std::string &code, const std::vector<A> &a,
                        const std::vector<B> &b = {}, const std::vector<C> &c = {}) {
  auto load = [](const std::string &name, const std::string &type, std::size_t size) {
    return "  ld.param.u64 %address, [" + name + "];\n  mad.wide.u32 %address, %lane, " +
           std::to_string(size) + ", %address;\n  ld.global." + type + " %" + name +
           ", [%address];\n";
  };
  std::string text = header + ".visible .entry k(.param .u64 d, .param .u64 a, .param .u64 b, "
                              ".param .u64 c)\n{\n  .reg .b64 %address; .reg .b32 %lane, %t, %u;\n"
                              "  .reg .pred %p, %q;\n";
  text += "  .reg ." + bitsType<D>() + " %d;\n  .reg ." + bitsType<A>() + " %a;\n";
  text += "  .reg ." + bitsType<B>() + " %b;\n  .reg ." + bitsType<C>() + " %c;\n";
  text += "  mov.u32 %lane, %laneid;\n";
  text += load("a", bitsType<A>(), sizeof(A));
  if (!b.empty())
    text += load("b", bitsType<B>(), sizeof(B));
  if (!c.empty())
    text += load("c", bitsType<C>(), sizeof(C));
  text += "  " + code + "\n  ld.param.u64 %address, [d];\n  mad.wide.u32 %address, %lane, " +
          std::to_string(sizeof(D)) + ", %address;\n  st.global." + bitsType<D>() +
          " [%address], %d;\n  ret;\n}\n";
  Harness h(text);
  REQUIRE(a.size() <= 32);
  DevicePtr out = h.upload(std::vector<D>(a.size()));
  auto send = [&](const auto &values) { return values.empty() ? DevicePtr{0} : h.upload(values); };
  INFO(code);
  h.ok("k", shapeOf(1, static_cast<std::uint32_t>(a.size())), out, send(a), send(b), send(c));
  return h.download<D>(out, a.size());
}

/// Runs one value through the instruction in one lane of a warp, and in all lanes of a full warp:
/// handlers treat the two cases differently.
template <class D, class A, class B = A, class C = A>
D one(const std::string &code, A a, std::type_identity_t<B> b = {},
      std::type_identity_t<C> c = {}) {
  D alone = evaluate<D, A, B, C>(code, {a}, {b}, {c})[0];
  auto full = evaluate<D, A, B, C>(code, std::vector<A>(32, a), std::vector<B>(32, b),
                                   std::vector<C>(32, c));
  CHECK(std::memcmp(&full[0], &alone, sizeof(D)) == 0);
  CHECK(std::memcmp(&full[31], &alone, sizeof(D)) == 0);
  return alone;
}

inline float asFloat(std::uint32_t bits) { return std::bit_cast<float>(bits); }
inline std::uint32_t bitsOf(float value) { return std::bit_cast<std::uint32_t>(value); }

} // namespace tally::emulator

#endif
