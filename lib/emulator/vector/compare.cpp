// setp for integers, f32 and f64. PTX ISA 9.7.6.
#include "tables.h"

#include "lanes.h"

#include <type_traits>

namespace tally::emulator::TALLY_EMULATOR_ISA {
namespace {

/// Stores the comparison's outcome, combined with the predicate that the op names.
[[gnu::always_inline]] inline void storeOutcome(Warp &warp, const Op &op, std::uint32_t mask,
                                                std::uint32_t outcome) {
  std::uint32_t positive = outcome, negative = ~outcome;
  if (op.slot[4] != noSlot) {
    std::uint32_t joined = warp.predicate(op.slot[4]);
    if (op.extra & 4u)
      joined = ~joined;
    switch (static_cast<Combine>(op.extra & 3u)) {
    case Combine::None:
      break;
    case Combine::And:
      positive &= joined;
      negative &= joined;
      break;
    case Combine::Or:
      positive |= joined;
      negative |= joined;
      break;
    case Combine::Xor:
      positive ^= joined;
      negative ^= joined;
      break;
    }
  }
  std::uint32_t &p = warp.predicate(op.slot[0]);
  p = (p & ~mask) | (positive & mask);
  if (op.slot[3] != noSlot) {
    std::uint32_t &q = warp.predicate(op.slot[3]);
    q = (q & ~mask) | (negative & mask);
  }
}

template <class T, bool Flush> T incoming(T a) {
  if constexpr (Flush)
    return (__builtin_bit_cast(std::uint32_t, a) & 0x7f800000u) == 0 ? 0.0f : a;
  else
    return a;
}

template <class T, bool Flush, class F>
Status compare(Warp &warp, const Op &op, std::uint32_t mask) {
  const T *a = warp.row<T>(op.slot[1]), *b = warp.row<T>(op.slot[2]);
  // Bytes first, then bits: the comparison loop vectorises, the packing is cheap.
  alignas(64) T outcome[warpSize];
#pragma GCC ivdep
  for (std::uint32_t i = 0; i < warpSize; ++i)
    outcome[i] = F::test(incoming<T, Flush>(a[i]), incoming<T, Flush>(b[i])) ? T{1} : T{0};
  std::uint32_t bits = 0;
#pragma GCC unroll 32
  for (std::uint32_t i = 0; i < warpSize; ++i)
    bits |= static_cast<std::uint32_t>(outcome[i] != T{0}) << i;
  storeOutcome(warp, op, mask, bits);
  return Status::Next;
}

#define TALLY_TEST(name, expression)                                                               \
  struct name {                                                                                    \
    template <class T> static bool test(T a, T b) { return expression; }                           \
  }
TALLY_TEST(Eq, a == b);
TALLY_TEST(Ne, (a < b) || (a > b));
TALLY_TEST(NeInteger, a != b);
TALLY_TEST(Lt, a < b);
TALLY_TEST(Le, a <= b);
TALLY_TEST(Gt, a > b);
TALLY_TEST(Ge, a >= b);
TALLY_TEST(Equ, !((a < b) || (a > b)));
TALLY_TEST(Neu, !(a == b));
TALLY_TEST(Ltu, !(a >= b));
TALLY_TEST(Leu, !(a > b));
TALLY_TEST(Gtu, !(a <= b));
TALLY_TEST(Geu, !(a < b));
TALLY_TEST(Num, a == a && b == b);
TALLY_TEST(NotNum, a != a || b != b);
#undef TALLY_TEST

template <class T> Handler integers(Comparison comparison) {
  switch (comparison) {
  case Comparison::Eq:
    return compare<T, false, Eq>;
  case Comparison::Ne:
    return compare<T, false, NeInteger>;
  case Comparison::Lt:
    return compare<T, false, Lt>;
  case Comparison::Le:
    return compare<T, false, Le>;
  case Comparison::Gt:
    return compare<T, false, Gt>;
  case Comparison::Ge:
    return compare<T, false, Ge>;
  default:
    return nullptr;
  }
}

template <class T, bool Flush> Handler floats(Comparison comparison) {
  static constexpr Handler table[] = {
      compare<T, Flush, Eq>,  compare<T, Flush, Ne>,    compare<T, Flush, Lt>,
      compare<T, Flush, Le>,  compare<T, Flush, Gt>,    compare<T, Flush, Ge>,
      compare<T, Flush, Equ>, compare<T, Flush, Neu>,   compare<T, Flush, Ltu>,
      compare<T, Flush, Leu>, compare<T, Flush, Gtu>,   compare<T, Flush, Geu>,
      compare<T, Flush, Num>, compare<T, Flush, NotNum>};
  return table[static_cast<std::size_t>(comparison)];
}

} // namespace

Handler compareHandler(Comparison comparison, Type type, bool flush) {
  switch (type) {
  case Type::B16:
  case Type::U16:
    return integers<std::uint16_t>(comparison);
  case Type::S16:
    return integers<std::int16_t>(comparison);
  case Type::B32:
  case Type::U32:
    return integers<std::uint32_t>(comparison);
  case Type::S32:
    return integers<std::int32_t>(comparison);
  case Type::B64:
  case Type::U64:
    return integers<std::uint64_t>(comparison);
  case Type::S64:
    return integers<std::int64_t>(comparison);
  case Type::F32:
    return flush ? floats<float, true>(comparison) : floats<float, false>(comparison);
  case Type::F64:
    return floats<double, false>(comparison);
  default:
    return nullptr;
  }
}

} // namespace tally::emulator::TALLY_EMULATOR_ISA
