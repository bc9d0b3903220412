// mov and selp of rows, and the conversions that need no rounding mode. PTX ISA 9.7.9.
#include "tables.h"

#include "lanes.h"

namespace tally::emulator::TALLY_EMULATOR_ISA {
namespace {

struct Pair64 {
  std::uint64_t low, high;
};

template <class T> struct Same {
  static T apply(T a) { return a; }
};
template <class D, class A> struct Cast {
  static D apply(A a) { return static_cast<D>(a); }
};

template <class T> Status select(Warp &warp, const Op &op, std::uint32_t mask) {
  T *d = warp.row<T>(op.slot[0]);
  const T *a = warp.row<T>(op.slot[1]), *b = warp.row<T>(op.slot[2]);
  std::uint32_t p = warp.predicate(op.slot[3]);
  if (op.flags & 1u)
    p = ~p;
  forLanes(mask, [=](std::uint32_t i) { d[i] = p >> i & 1u ? a[i] : b[i]; });
  return Status::Next;
}

template <class A> Handler castFrom(Type to) {
  switch (to) {
  case Type::U16:
  case Type::S16:
  case Type::B16:
    return unary<std::uint16_t, A, Cast<std::uint16_t, A>>;
  case Type::U32:
  case Type::S32:
  case Type::B32:
    return unary<std::uint32_t, A, Cast<std::uint32_t, A>>;
  case Type::U64:
  case Type::S64:
  case Type::B64:
    return unary<std::uint64_t, A, Cast<std::uint64_t, A>>;
  case Type::F32:
    return unary<float, A, Cast<float, A>>;
  case Type::F64:
    return unary<double, A, Cast<double, A>>;
  default:
    return nullptr;
  }
}

} // namespace

Handler moveHandler(std::uint32_t bytes) {
  switch (bytes) {
  case 2:
    return unary<std::uint16_t, std::uint16_t, Same<std::uint16_t>>;
  case 4:
    return unary<std::uint32_t, std::uint32_t, Same<std::uint32_t>>;
  case 8:
    return unary<std::uint64_t, std::uint64_t, Same<std::uint64_t>>;
  case 16:
    return unary<Pair64, Pair64, Same<Pair64>>;
  default:
    return nullptr;
  }
}

Handler selectHandler(std::uint32_t bytes) {
  switch (bytes) {
  case 2:
    return select<std::uint16_t>;
  case 4:
    return select<std::uint32_t>;
  case 8:
    return select<std::uint64_t>;
  default:
    return nullptr;
  }
}

// Conversions between integers, and from integers to floats to nearest. The decoder first extends
// 8-bit sources to 16 bits by sign or zeros.
Handler convertHandler(Type to, Type from) {
  switch (from) {
  case Type::U16:
  case Type::B16:
    return castFrom<std::uint16_t>(to);
  case Type::S16:
    return castFrom<std::int16_t>(to);
  case Type::U32:
  case Type::B32:
    return castFrom<std::uint32_t>(to);
  case Type::S32:
    return castFrom<std::int32_t>(to);
  case Type::U64:
  case Type::B64:
    return castFrom<std::uint64_t>(to);
  case Type::S64:
    return castFrom<std::int64_t>(to);
  default:
    return nullptr;
  }
}

} // namespace tally::emulator::TALLY_EMULATOR_ISA
