#include "rounding.h"

#include "warp.h"

#include <bit>
#include <cfenv>
#include <cmath>

namespace tally::emulator {

namespace {

class RoundingScope {
public:
  explicit RoundingScope(Rounding rounding) {
    static constexpr int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
    std::fesetround(modes[static_cast<int>(rounding)]);
  }
  ~RoundingScope() { std::fesetround(FE_TONEAREST); }
  RoundingScope(const RoundingScope &) = delete;
  RoundingScope &operator=(const RoundingScope &) = delete;
};

// The operands are read through volatile: then no compiler may move the operation out of the scope
// or fold it under another mode.
template <class T> T computeOnce(FloatOp op, T x, T y, T z) {
  volatile T a = x, b = y, c = z;
  volatile T result = 0;
  switch (op) {
  case FloatOp::Add:
    result = a + b;
    break;
  case FloatOp::Sub:
    result = a - b;
    break;
  case FloatOp::Mul:
    result = a * b;
    break;
  case FloatOp::Fma:
    result = std::fma(T(a), T(b), T(c));
    break;
  case FloatOp::Div:
    result = a / b;
    break;
  case FloatOp::Rcp:
    result = T{1} / a;
    break;
  case FloatOp::Sqrt:
    result = std::sqrt(T(a));
    break;
  default:
    break;
  }
  return result;
}

float flush(float a, bool wanted) {
  auto bits = std::bit_cast<std::uint32_t>(a);
  return wanted && (bits & 0x7f800000u) == 0 ? std::bit_cast<float>(bits & 0x80000000u) : a;
}

float finish(float a, std::uint8_t flags) {
  a = flush(a, flags & FlushSubnormal);
  if (flags & Saturate)
    return a > 0 ? (a < 1 ? a : 1.0f) : 0.0f;
  return a != a ? std::bit_cast<float>(0x7fffffffu) : a;
}

template <class T, FloatOp Operation, Rounding Mode, std::uint8_t Flags>
Status rounded(Warp &warp, const Op &op, std::uint32_t mask) {
  T *d = warp.row<T>(op.slot[0]);
  const T *a = warp.row<T>(op.slot[1]);
  const T *b = op.slot[2] == noSlot ? a : warp.row<T>(op.slot[2]);
  const T *c = op.slot[3] == noSlot ? a : warp.row<T>(op.slot[3]);
  RoundingScope scope(Mode);
  for (; mask; mask &= mask - 1) {
    auto i = static_cast<std::uint32_t>(std::countr_zero(mask));
    if constexpr (sizeof(T) == 4) {
      constexpr bool flushes = (Flags & FlushSubnormal) != 0;
      d[i] = finish(
          computeOnce(Operation, flush(a[i], flushes), flush(b[i], flushes), flush(c[i], flushes)),
          Flags);
    } else {
      d[i] = computeOnce(Operation, a[i], b[i], c[i]);
    }
  }
  return Status::Next;
}

template <class T, FloatOp Operation, Rounding Mode> Handler withFlags(std::uint8_t flags) {
  static constexpr Handler table[] = {
      rounded<T, Operation, Mode, 0>, rounded<T, Operation, Mode, 1>,
      rounded<T, Operation, Mode, 2>, rounded<T, Operation, Mode, 3>};
  return table[sizeof(T) == 4 ? flags & 3 : 0];
}

template <class T, FloatOp Operation> Handler withMode(Rounding rounding, std::uint8_t flags) {
  switch (rounding) {
  case Rounding::Nearest:
    return withFlags<T, Operation, Rounding::Nearest>(flags);
  case Rounding::Zero:
    return withFlags<T, Operation, Rounding::Zero>(flags);
  case Rounding::Down:
    return withFlags<T, Operation, Rounding::Down>(flags);
  case Rounding::Up:
    return withFlags<T, Operation, Rounding::Up>(flags);
  }
  return nullptr;
}

template <class T> Handler ofType(FloatOp op, Rounding rounding, std::uint8_t flags) {
  switch (op) {
  case FloatOp::Add:
    return withMode<T, FloatOp::Add>(rounding, flags);
  case FloatOp::Sub:
    return withMode<T, FloatOp::Sub>(rounding, flags);
  case FloatOp::Mul:
    return withMode<T, FloatOp::Mul>(rounding, flags);
  case FloatOp::Fma:
    return withMode<T, FloatOp::Fma>(rounding, flags);
  case FloatOp::Div:
    return withMode<T, FloatOp::Div>(rounding, flags);
  case FloatOp::Rcp:
    return withMode<T, FloatOp::Rcp>(rounding, flags);
  case FloatOp::Sqrt:
    return withMode<T, FloatOp::Sqrt>(rounding, flags);
  default:
    return nullptr;
  }
}

} // namespace

Handler roundedHandler(FloatOp op, Type type, Rounding rounding, std::uint8_t flags) {
  if (type == Type::F32)
    return ofType<float>(op, rounding, flags);
  return type == Type::F64 ? ofType<double>(op, rounding, flags) : nullptr;
}

float narrowed(double value, Rounding rounding) {
  RoundingScope scope(rounding);
  volatile double from = value;
  volatile float to = static_cast<float>(from);
  return to;
}

template <class To, class From> To fromInteger(From value, Rounding rounding) {
  RoundingScope scope(rounding);
  volatile From from = value;
  volatile To to = static_cast<To>(from);
  return to;
}
template float fromInteger(std::int64_t, Rounding);
template float fromInteger(std::uint64_t, Rounding);
template double fromInteger(std::int64_t, Rounding);
template double fromInteger(std::uint64_t, Rounding);

} // namespace tally::emulator
