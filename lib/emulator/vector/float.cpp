// f32 and f64 arithmetic rounded to nearest even, and the approximations. PTX ISA 9.7.3.
//
// The C library computes the approximate operations, well inside the errors that the ISA states (at
// most 2 ulp, or 2^-20.5 for sin and cos).
#include "tables.h"

#include "lanes.h"

#include <bit>
#include <cmath>
#include <type_traits>

namespace tally::emulator::TALLY_EMULATOR_ISA {
namespace {

template <class T> using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
template <class T> inline constexpr Bits<T> signBit = Bits<T>{1} << (sizeof(T) * 8 - 1);
template <class T> Bits<T> bitsOf(T a) { return __builtin_bit_cast(Bits<T>, a); }
template <class T> T fromBits(Bits<T> a) { return __builtin_bit_cast(T, a); }

template <bool Flush> float flushed(float a) {
  if constexpr (Flush)
    return (bitsOf(a) & 0x7f800000u) == 0 ? fromBits<float>(bitsOf(a) & signBit<float>) : a;
  else
    return a;
}
// NOLINTNEXTLINE(misc-redundant-expression)
template <class T> bool isNan(T a) { return a != a; }

/// Adapts a result to the ISA: f32 NaNs are 0x7fffffff, saturation turns NaN into 0.
template <std::uint8_t Flags, class T> T finish(T a) {
  if constexpr (sizeof(T) == 4) {
    a = flushed<(Flags & FlushSubnormal) != 0>(a);
    if constexpr ((Flags & Saturate) != 0) {
      a = a > 0.0f ? a : 0.0f;
      return a < 1.0f ? a : 1.0f;
    }
    return isNan(a) ? fromBits<float>(0x7fffffffu) : a;
  } else {
    return a;
  }
}
template <std::uint8_t Flags, class T> T incoming(T a) {
  if constexpr (sizeof(T) == 4)
    return flushed<(Flags & FlushSubnormal) != 0>(a);
  else
    return a;
}

template <class T> struct AddOf {
  static T apply(T a, T b) { return a + b; }
};
template <class T> struct SubOf {
  static T apply(T a, T b) { return a - b; }
};
template <class T> struct MulOf {
  static T apply(T a, T b) { return a * b; }
};
template <class T> struct DivOf {
  static T apply(T a, T b) { return a / b; }
};
template <class T> struct FmaOf {
  static T apply(T a, T b, T c) {
    if constexpr (sizeof(T) == 4)
      return __builtin_fmaf(a, b, c);
    else
      return __builtin_fma(a, b, c);
  }
};
template <class T> struct RcpOf {
  static T apply(T a) { return T{1} / a; }
};
template <class T> struct SqrtOf {
  static T apply(T a) {
    if constexpr (sizeof(T) == 4)
      return __builtin_sqrtf(a);
    else
      return __builtin_sqrt(a);
  }
};
template <class T> struct RsqrtOf {
  static T apply(T a) {
    if (a == 0) // for a signed zero the infinity has its sign
      return T{1} / a;
    return static_cast<T>(1.0 / __builtin_sqrt(a));
  }
};
template <class T> struct SinOf {
  static T apply(T a) { return __builtin_sinf(a); }
};
template <class T> struct CosOf {
  static T apply(T a) { return __builtin_cosf(a); }
};
template <class T> struct Lg2Of {
  static T apply(T a) { return __builtin_log2f(a); }
};
template <class T> struct Ex2Of {
  static T apply(T a) { return __builtin_exp2f(a); }
};
template <class T> struct TanhOf {
  static T apply(T a) { return __builtin_tanhf(a); }
};
// -0 counts as less than +0; a NaN yields the other operand.
template <class T> struct MinOf {
  static T apply(T a, T b) {
    T zero = fromBits<T>(bitsOf(a) | bitsOf(b));
    T least = a < b ? a : b;
    least = a == b && a == 0 ? zero : least;
    least = isNan(a) ? b : least;
    return isNan(b) ? a : least;
  }
};
template <class T> struct MaxOf {
  static T apply(T a, T b) {
    T zero = fromBits<T>(bitsOf(a) & bitsOf(b));
    T most = a > b ? a : b;
    most = a == b && a == 0 ? zero : most;
    most = isNan(a) ? b : most;
    return isNan(b) ? a : most;
  }
};
template <class T> struct MinNanOf {
  static T apply(T a, T b) { return isNan(a) ? a : isNan(b) ? b : MinOf<T>::apply(a, b); }
};
template <class T> struct MaxNanOf {
  static T apply(T a, T b) { return isNan(a) ? a : isNan(b) ? b : MaxOf<T>::apply(a, b); }
};
// These operations change only the sign.
template <class T> struct AbsOf {
  static T apply(T a) { return fromBits<T>(bitsOf(a) & ~signBit<T>); }
};
template <class T> struct NegOf {
  static T apply(T a) { return fromBits<T>(bitsOf(a) ^ signBit<T>); }
};
template <class T> struct CopySignOf {
  static T apply(T a, T b) {
    return fromBits<T>((bitsOf(b) & ~signBit<T>) | (bitsOf(a) & signBit<T>));
  }
};

template <class T, template <class> class F, std::uint8_t Flags> struct Wrapped {
  static T apply(T a) { return finish<Flags>(F<T>::apply(incoming<Flags>(a))); }
  static T apply(T a, T b) {
    return finish<Flags>(F<T>::apply(incoming<Flags>(a), incoming<Flags>(b)));
  }
  static T apply(T a, T b, T c) {
    return finish<Flags>(F<T>::apply(incoming<Flags>(a), incoming<Flags>(b), incoming<Flags>(c)));
  }
};

template <class T, template <class> class F> Handler one(std::uint8_t flags) {
  static constexpr Handler table[] = {unary<T, T, Wrapped<T, F, 0>>, unary<T, T, Wrapped<T, F, 1>>,
                                      unary<T, T, Wrapped<T, F, 2>>, unary<T, T, Wrapped<T, F, 3>>};
  return table[flags & 3u];
}
template <class T, template <class> class F> Handler two(std::uint8_t flags) {
  static constexpr Handler table[] = {
      binary<T, T, T, Wrapped<T, F, 0>>, binary<T, T, T, Wrapped<T, F, 1>>,
      binary<T, T, T, Wrapped<T, F, 2>>, binary<T, T, T, Wrapped<T, F, 3>>};
  return table[flags & 3u];
}
template <class T> Handler fused(std::uint8_t flags) {
  static constexpr Handler table[] = {
      ternary<T, T, T, T, Wrapped<T, FmaOf, 0>>, ternary<T, T, T, T, Wrapped<T, FmaOf, 1>>,
      ternary<T, T, T, T, Wrapped<T, FmaOf, 2>>, ternary<T, T, T, T, Wrapped<T, FmaOf, 3>>};
  return table[flags & 3u];
}

template <class T> Handler common(FloatOp op, std::uint8_t flags) {
  switch (op) {
  case FloatOp::Add:
    return two<T, AddOf>(flags);
  case FloatOp::Sub:
    return two<T, SubOf>(flags);
  case FloatOp::Mul:
    return two<T, MulOf>(flags);
  case FloatOp::Fma:
    return fused<T>(flags);
  case FloatOp::Div:
    return two<T, DivOf>(flags);
  case FloatOp::Rcp:
    return one<T, RcpOf>(flags);
  case FloatOp::Sqrt:
    return one<T, SqrtOf>(flags);
  case FloatOp::Rsqrt:
    return one<T, RsqrtOf>(flags);
  case FloatOp::Min:
    return two<T, MinOf>(flags);
  case FloatOp::Max:
    return two<T, MaxOf>(flags);
  case FloatOp::CopySign:
    return binary<T, T, T, CopySignOf<T>>;
  default:
    return nullptr;
  }
}

Handler single(FloatOp op, std::uint8_t flags) {
  switch (op) {
  case FloatOp::Sin:
    return one<float, SinOf>(flags);
  case FloatOp::Cos:
    return one<float, CosOf>(flags);
  case FloatOp::Lg2:
    return one<float, Lg2Of>(flags);
  case FloatOp::Ex2:
    return one<float, Ex2Of>(flags);
  case FloatOp::Tanh:
    return one<float, TanhOf>(flags);
  case FloatOp::MinNan:
    return two<float, MinNanOf>(flags);
  case FloatOp::MaxNan:
    return two<float, MaxNanOf>(flags);
  case FloatOp::Abs:
    return one<float, AbsOf>(flags);
  case FloatOp::Neg:
    return one<float, NegOf>(flags);
  default:
    return common<float>(op, flags);
  }
}

Handler doubled(FloatOp op) {
  if (op == FloatOp::Abs)
    return unary<double, double, AbsOf<double>>;
  if (op == FloatOp::Neg)
    return unary<double, double, NegOf<double>>;
  return common<double>(op, 0);
}

} // namespace

Handler floatHandler(FloatOp op, Type type, std::uint8_t flags) {
  if (type == Type::F32)
    return single(op, flags);
  return type == Type::F64 ? doubled(op) : nullptr;
}

} // namespace tally::emulator::TALLY_EMULATOR_ISA
