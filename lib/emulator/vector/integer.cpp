// Integer arithmetic. PTX ISA 9.7.1, 9.7.2 and 9.7.8 (logic and shifts).
#include "tables.h"

#include "lanes.h"

#include <type_traits>

namespace tally::emulator::TALLY_EMULATOR_ISA {
namespace {

template <class T> using Unsigned = std::make_unsigned_t<T>;
template <class T> inline constexpr std::uint32_t bitsOf = sizeof(T) * 8;

template <class T> struct Wider;
template <> struct Wider<std::uint16_t> {
  using Of = std::uint32_t;
};
template <> struct Wider<std::int16_t> {
  using Of = std::int32_t;
};
template <> struct Wider<std::uint32_t> {
  using Of = std::uint64_t;
};
template <> struct Wider<std::int32_t> {
  using Of = std::int64_t;
};
template <> struct Wider<std::uint64_t> {
  using Of = unsigned __int128;
};
template <> struct Wider<std::int64_t> {
  using Of = __int128;
};
template <class T> using Wide = typename Wider<T>::Of;

// Arithmetic uses an unsigned type of at least 32 bits, for which wrap-around is defined.
template <class T> using Modular = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

template <class T> struct Add {
  static T apply(T a, T b) { return static_cast<T>(Modular<T>(a) + Modular<T>(b)); }
};
template <class T> struct Sub {
  static T apply(T a, T b) { return static_cast<T>(Modular<T>(a) - Modular<T>(b)); }
};
template <class T> struct MulLo {
  static T apply(T a, T b) { return static_cast<T>(Modular<T>(a) * Modular<T>(b)); }
};
template <class T> struct MulHi {
  static T apply(T a, T b) { return static_cast<T>((Wide<T>(a) * Wide<T>(b)) >> bitsOf<T>); }
};
template <class T> struct MulWide {
  static Wide<T> apply(T a, T b) { return Wide<T>(a) * Wide<T>(b); }
};
template <class T> struct MadLo {
  static T apply(T a, T b, T c) {
    return static_cast<T>(Modular<T>(a) * Modular<T>(b) + Modular<T>(c));
  }
};
template <class T> struct MadHi {
  static T apply(T a, T b, T c) { return Add<T>::apply(MulHi<T>::apply(a, b), c); }
};
template <class T> struct MadWide {
  static Wide<T> apply(T a, T b, Wide<T> c) {
    return Add<Wide<T>>::apply(Wide<T>(a) * Wide<T>(b), c);
  }
};
template <class T> T low24(T a) {
  if constexpr (std::is_signed_v<T>)
    return static_cast<T>(static_cast<std::uint32_t>(a) << 8) >> 8;
  else
    return a & 0xffffffu;
}
template <class T> struct Mul24Lo {
  static T apply(T a, T b) { return static_cast<T>(Wide<T>(low24(a)) * low24(b)); }
};
template <class T> struct Mul24Hi {
  static T apply(T a, T b) { return static_cast<T>((Wide<T>(low24(a)) * low24(b)) >> 16); }
};
template <class T> struct Mad24Lo {
  static T apply(T a, T b, T c) { return Add<T>::apply(Mul24Lo<T>::apply(a, b), c); }
};
template <class T> struct Mad24Hi {
  static T apply(T a, T b, T c) { return Add<T>::apply(Mul24Hi<T>::apply(a, b), c); }
};
// Division by zero is unspecified in the ISA; the hardware gives all ones.
template <class T> struct Div {
  static T apply(T a, T b) {
    if (b == 0)
      return static_cast<T>(~T{0});
    if constexpr (std::is_signed_v<T>)
      if (b == T{-1})
        return Sub<T>::apply(0, a);
    return static_cast<T>(a / b);
  }
};
template <class T> struct Rem {
  static T apply(T a, T b) {
    if (b == 0)
      return static_cast<T>(~T{0});
    if constexpr (std::is_signed_v<T>)
      if (b == T{-1})
        return 0;
    return static_cast<T>(a % b);
  }
};
template <class T> struct Min {
  static T apply(T a, T b) { return a < b ? a : b; }
};
template <class T> struct Max {
  static T apply(T a, T b) { return a > b ? a : b; }
};
template <class T> struct Neg {
  static T apply(T a) { return Sub<T>::apply(0, a); }
};
template <class T> struct Abs {
  static T apply(T a) { return a < 0 ? Neg<T>::apply(a) : a; }
};
template <class T> struct Sad {
  static T apply(T a, T b, T c) {
    return Add<T>::apply(c, a < b ? Sub<T>::apply(b, a) : Sub<T>::apply(a, b));
  }
};
template <class T> struct Shl {
  static T apply(T a, std::uint32_t n) {
    return n < bitsOf<T> ? static_cast<T>(Modular<T>(a) << (n & (bitsOf<T> - 1))) : T{0};
  }
};
template <class T> struct Shr {
  static T apply(T a, std::uint32_t n) {
    if constexpr (std::is_signed_v<T>)
      return static_cast<T>(a >> (n < bitsOf<T> ? n : bitsOf<T> - 1));
    else
      return n < bitsOf<T> ? static_cast<T>(a >> (n & (bitsOf<T> - 1))) : T{0};
  }
};
template <class T> struct And {
  static T apply(T a, T b) { return a & b; }
};
template <class T> struct Or {
  static T apply(T a, T b) { return a | b; }
};
template <class T> struct Xor {
  static T apply(T a, T b) { return a ^ b; }
};
template <class T> struct Not {
  static T apply(T a) { return static_cast<T>(~a); }
};
template <class T> struct Cnot {
  static T apply(T a) { return a == 0; }
};
template <class T> struct AddSat {
  static T apply(T a, T b) {
    T sum;
    return __builtin_add_overflow(a, b, &sum) ? (a < 0 ? INT32_MIN : INT32_MAX) : sum;
  }
};
template <class T> struct SubSat {
  static T apply(T a, T b) {
    T difference;
    return __builtin_sub_overflow(a, b, &difference) ? (a < 0 ? INT32_MIN : INT32_MAX) : difference;
  }
};
template <class T> struct MadHiSat {
  static T apply(T a, T b, T c) { return AddSat<T>::apply(MulHi<T>::apply(a, b), c); }
};

template <class T> Handler arithmetic(IntegerOp op) {
  switch (op) {
  case IntegerOp::Add:
    return binary<T, T, T, Add<T>>;
  case IntegerOp::Sub:
    return binary<T, T, T, Sub<T>>;
  case IntegerOp::MulLo:
    return binary<T, T, T, MulLo<T>>;
  case IntegerOp::MulHi:
    return binary<T, T, T, MulHi<T>>;
  case IntegerOp::MadLo:
    return ternary<T, T, T, T, MadLo<T>>;
  case IntegerOp::MadHi:
    return ternary<T, T, T, T, MadHi<T>>;
  case IntegerOp::Div:
    return binary<T, T, T, Div<T>>;
  case IntegerOp::Rem:
    return binary<T, T, T, Rem<T>>;
  case IntegerOp::Min:
    return binary<T, T, T, Min<T>>;
  case IntegerOp::Max:
    return binary<T, T, T, Max<T>>;
  case IntegerOp::Abs:
    return unary<T, T, Abs<T>>;
  case IntegerOp::Neg:
    return unary<T, T, Neg<T>>;
  case IntegerOp::Sad:
    return ternary<T, T, T, T, Sad<T>>;
  case IntegerOp::Shl:
    return binary<T, T, std::uint32_t, Shl<T>>;
  case IntegerOp::Shr:
    return binary<T, T, std::uint32_t, Shr<T>>;
  case IntegerOp::And:
    return binary<T, T, T, And<T>>;
  case IntegerOp::Or:
    return binary<T, T, T, Or<T>>;
  case IntegerOp::Xor:
    return binary<T, T, T, Xor<T>>;
  case IntegerOp::Not:
    return unary<T, T, Not<T>>;
  case IntegerOp::Cnot:
    return unary<T, T, Cnot<T>>;
  default:
    return nullptr;
  }
}

template <class T> Handler wide(IntegerOp op) {
  switch (op) {
  case IntegerOp::MulWide:
    return binary<Wide<T>, T, T, MulWide<T>>;
  case IntegerOp::MadWide:
    return ternary<Wide<T>, T, T, Wide<T>, MadWide<T>>;
  default:
    return nullptr;
  }
}

template <class T> Handler twentyFour(IntegerOp op) {
  switch (op) {
  case IntegerOp::Mul24Lo:
    return binary<T, T, T, Mul24Lo<T>>;
  case IntegerOp::Mul24Hi:
    return binary<T, T, T, Mul24Hi<T>>;
  case IntegerOp::Mad24Lo:
    return ternary<T, T, T, T, Mad24Lo<T>>;
  case IntegerOp::Mad24Hi:
    return ternary<T, T, T, T, Mad24Hi<T>>;
  default:
    return nullptr;
  }
}

Handler saturating(IntegerOp op) {
  using T = std::int32_t;
  switch (op) {
  case IntegerOp::AddSat:
    return binary<T, T, T, AddSat<T>>;
  case IntegerOp::SubSat:
    return binary<T, T, T, SubSat<T>>;
  case IntegerOp::MadHiSat:
    return ternary<T, T, T, T, MadHiSat<T>>;
  default:
    return nullptr;
  }
}

Handler either(Handler first, Handler second) { return first ? first : second; }

} // namespace

Handler integerHandler(IntegerOp op, Type type) {
  if (Handler handler = bitHandler(op, type))
    return handler;
  switch (type) {
  case Type::B16:
  case Type::U16:
    return either(arithmetic<std::uint16_t>(op), wide<std::uint16_t>(op));
  case Type::S16:
    return either(arithmetic<std::int16_t>(op), wide<std::int16_t>(op));
  case Type::B32:
  case Type::U32:
    return either(arithmetic<std::uint32_t>(op),
                  either(wide<std::uint32_t>(op), twentyFour<std::uint32_t>(op)));
  case Type::S32:
    return either(
        arithmetic<std::int32_t>(op),
        either(wide<std::int32_t>(op), either(twentyFour<std::int32_t>(op), saturating(op))));
  case Type::B64:
  case Type::U64:
    return arithmetic<std::uint64_t>(op);
  case Type::S64:
    return arithmetic<std::int64_t>(op);
  default:
    return nullptr;
  }
}

} // namespace tally::emulator::TALLY_EMULATOR_ISA
