// Bit manipulation and small dot products. PTX ISA 9.7.1.14 to 9.7.1.24 and 9.7.8.
#include "tables.h"

#include "lanes.h"

#include <bit>
#include <cstdint>

namespace tally::emulator::TALLY_EMULATOR_ISA {
namespace {

using U32 = std::uint32_t;
using U64 = std::uint64_t;

Status lop3(Warp &warp, const Op &op, U32 mask) {
  U32 *d = warp.row<U32>(op.slot[0]);
  const U32 *a = warp.row<U32>(op.slot[1]), *b = warp.row<U32>(op.slot[2]),
            *c = warp.row<U32>(op.slot[3]);
  U32 term[8];
  for (U32 i = 0; i < 8; ++i)
    term[i] = op.extra >> i & 1u ? fullMask : 0;
  forLanes(mask, [=, &term](U32 i) {
    U32 x = a[i], y = b[i], z = c[i];
    d[i] = (term[0] & ~x & ~y & ~z) | (term[1] & ~x & ~y & z) | (term[2] & ~x & y & ~z) |
           (term[3] & ~x & y & z) | (term[4] & x & ~y & ~z) | (term[5] & x & ~y & z) |
           (term[6] & x & y & ~z) | (term[7] & x & y & z);
  });
  return Status::Next;
}

template <class T, bool Signed> struct Bfe {
  static T apply(T a, U32 position, U32 length) {
    constexpr U32 width = sizeof(T) * 8;
    position &= 0xff;
    length &= 0xff;
    T signBit = 0;
    if (Signed && length != 0) {
      U32 top = position + length - 1 < width - 1 ? position + length - 1 : width - 1;
      signBit = a >> top & 1;
    }
    T field = position < width ? a >> position : 0;
    U32 available = position < width ? width - position : 0;
    U32 taken = length < available ? length : available;
    T low = taken >= width ? ~T{0} : (T{1} << taken) - 1;
    T high = length >= width ? 0 : ~((T{1} << length) - 1);
    // Bits above the extracted field, within the length and beyond it, are copies of the sign or
    // zeros.
    return (field & low) | (signBit ? ~low : 0) | (signBit ? high : 0);
  }
};

template <class T> struct Bfi {
  static T apply(T a, T b, U32 position, U32 length) {
    constexpr U32 width = sizeof(T) * 8;
    position &= 0xff;
    length &= 0xff;
    if (length == 0 || position >= width)
      return b;
    T low = length >= width ? ~T{0} : (T{1} << length) - 1;
    T mask = low << position;
    return (b & ~mask) | ((a << position) & mask);
  }
};

template <class T> Status bfi(Warp &warp, const Op &op, U32 mask) {
  T *d = warp.row<T>(op.slot[0]);
  const T *a = warp.row<T>(op.slot[1]), *b = warp.row<T>(op.slot[2]);
  const U32 *position = warp.row<U32>(op.slot[3]), *length = warp.row<U32>(op.slot[4]);
  forLanes(mask, [=](U32 i) { d[i] = Bfi<T>::apply(a[i], b[i], position[i], length[i]); });
  return Status::Next;
}

template <class T, bool Signed, bool Shift> struct Bfind {
  static U32 apply(T a) {
    if (Signed && (a >> (sizeof(T) * 8 - 1) & 1))
      a = ~a;
    if (a == 0)
      return ~0u;
    U32 leading = static_cast<U32>(std::countl_zero(a));
    return Shift ? leading : static_cast<U32>(sizeof(T) * 8 - 1 - leading);
  }
};
template <class T> struct Brev {
  static T apply(T a) {
    T result = 0;
    for (U32 i = 0; i < sizeof(T) * 8; ++i)
      result |= (a >> i & 1) << (sizeof(T) * 8 - 1 - i);
    return result;
  }
};
template <class T> struct Popc {
  static U32 apply(T a) { return static_cast<U32>(std::popcount(a)); }
};
template <class T> struct Clz {
  static U32 apply(T a) { return static_cast<U32>(std::countl_zero(a)); }
};
// fns: the position of the n-th set bit, counting from `base` upwards or downwards.
struct Fns {
  static U32 apply(U32 bits, U32 base, std::int32_t n) {
    if (n == 0)
      return base < 32 && (bits >> base & 1) ? base : ~0u;
    std::int32_t step = n > 0 ? 1 : -1, left = n > 0 ? n : -n;
    for (std::int32_t i = static_cast<std::int32_t>(base & 31u); i >= 0 && i < 32; i += step)
      if ((bits >> i & 1) && --left == 0)
        return static_cast<U32>(i);
    return ~0u;
  }
};
template <bool Wrap> struct Bmsk {
  static U32 apply(U32 position, U32 width) {
    if (Wrap) {
      position &= 31;
      width &= 31;
    }
    if (position >= 32 || width == 0)
      return 0;
    U32 low = width >= 32 ? fullMask : (1u << width) - 1;
    return low << position;
  }
};
template <bool Signed, bool Wrap> struct Szext {
  static U32 apply(U32 a, U32 width) {
    if (Wrap)
      width &= 31;
    if (width >= 32)
      return a;
    if (width == 0)
      return 0;
    U32 low = a & ((1u << width) - 1);
    return Signed && (low >> (width - 1) & 1) ? low | ~((1u << width) - 1) : low;
  }
};

// prmt: the modes of PTX ISA 9.7.9.7; Op::extra selects one.
U32 prmt(U32 mode, U32 a, U32 b, U32 c) {
  U64 bytes = U64{b} << 32 | a;
  static constexpr std::uint8_t forward[4] = {0, 1, 2, 3};
  U32 result = 0, select = c & 3;
  for (U32 i = 0; i < 4; ++i) {
    U32 index = 0;
    bool sign = false;
    switch (mode) {
    case 0:
      index = c >> (4 * i) & 7;
      sign = c >> (4 * i) & 8;
      break;
    case 1: // f4e: forward 4 extract
      index = forward[i] + select;
      break;
    case 2: // b4e: backward 4 extract
      index = (8 + select - i) & 7;
      break;
    case 3: // rc8
      index = select;
      break;
    case 4: // ecl: edge clamp left
      index = i < select ? select : i;
      break;
    case 5: // ecr: edge clamp right
      index = i < select ? i : select;
      break;
    default: // rc16
      index = (select & 1) * 2 + (i & 1);
      break;
    }
    U32 byte = static_cast<U32>(bytes >> (8 * index)) & 0xff;
    if (sign)
      byte = byte & 0x80 ? 0xff : 0;
    result |= byte << (8 * i);
  }
  return result;
}
Status permute(Warp &warp, const Op &op, U32 mask) {
  U32 *d = warp.row<U32>(op.slot[0]);
  const U32 *a = warp.row<U32>(op.slot[1]), *b = warp.row<U32>(op.slot[2]),
            *c = warp.row<U32>(op.slot[3]);
  forLanes(mask, [=, mode = op.extra](U32 i) { d[i] = prmt(mode, a[i], b[i], c[i]); });
  return Status::Next;
}

template <bool Left, bool Wrap> struct Funnel {
  static U32 apply(U32 a, U32 b, U32 n) {
    n = Wrap ? n & 31 : (n < 32 ? n : 32);
    U64 both = U64{b} << 32 | a;
    return static_cast<U32>(Left ? (both << n) >> 32 : both >> n);
  }
};

std::int64_t piece(U32 word, U32 index, U32 bits, bool isSigned) {
  U32 value = word >> (index * bits) & ((1u << bits) - 1);
  return isSigned && (value >> (bits - 1)) ? std::int64_t{value} - (std::int64_t{1} << bits)
                                           : std::int64_t{value};
}
// dp4a: four bytes by four; dp2a: two halves of a by the low or high two bytes of b.
template <U32 ABits, U32 Terms, U32 BFirst> Status dot(Warp &warp, const Op &op, U32 mask) {
  U32 *d = warp.row<U32>(op.slot[0]);
  const U32 *a = warp.row<U32>(op.slot[1]), *b = warp.row<U32>(op.slot[2]),
            *c = warp.row<U32>(op.slot[3]);
  bool aSigned = op.extra & 1, bSigned = op.extra & 2;
  forLanes(mask, [=](U32 i) {
    std::int64_t sum = c[i];
    for (U32 k = 0; k < Terms; ++k)
      sum += piece(a[i], k, ABits, aSigned) * piece(b[i], BFirst + k, 8, bSigned);
    d[i] = static_cast<U32>(sum);
  });
  return Status::Next;
}

template <class T, bool Signed> Handler sized(IntegerOp op) {
  switch (op) {
  case IntegerOp::Bfe:
    return ternary<T, T, U32, U32, Bfe<T, Signed>>;
  case IntegerOp::Bfi:
    return bfi<T>;
  case IntegerOp::Bfind:
    return unary<U32, T, Bfind<T, Signed, false>>;
  case IntegerOp::BfindShift:
    return unary<U32, T, Bfind<T, Signed, true>>;
  case IntegerOp::Brev:
    return unary<T, T, Brev<T>>;
  case IntegerOp::Popc:
    return unary<U32, T, Popc<T>>;
  case IntegerOp::Clz:
    return unary<U32, T, Clz<T>>;
  default:
    return nullptr;
  }
}

template <bool Signed> Handler word(IntegerOp op) {
  switch (op) {
  case IntegerOp::Lop3:
    return lop3;
  case IntegerOp::Fns:
    return ternary<U32, U32, U32, std::int32_t, Fns>;
  case IntegerOp::Bmsk:
    return binary<U32, U32, U32, Bmsk<false>>;
  case IntegerOp::BmskWrap:
    return binary<U32, U32, U32, Bmsk<true>>;
  case IntegerOp::Szext:
    return binary<U32, U32, U32, Szext<Signed, false>>;
  case IntegerOp::SzextWrap:
    return binary<U32, U32, U32, Szext<Signed, true>>;
  case IntegerOp::Prmt:
    return permute;
  case IntegerOp::ShfLeftClamp:
    return ternary<U32, U32, U32, U32, Funnel<true, false>>;
  case IntegerOp::ShfLeftWrap:
    return ternary<U32, U32, U32, U32, Funnel<true, true>>;
  case IntegerOp::ShfRightClamp:
    return ternary<U32, U32, U32, U32, Funnel<false, false>>;
  case IntegerOp::ShfRightWrap:
    return ternary<U32, U32, U32, U32, Funnel<false, true>>;
  case IntegerOp::Dp4a:
    return dot<8, 4, 0>;
  case IntegerOp::Dp2aLo:
    return dot<16, 2, 0>;
  case IntegerOp::Dp2aHi:
    return dot<16, 2, 2>;
  default:
    return nullptr;
  }
}

} // namespace

Handler bitHandler(IntegerOp op, Type type) {
  bool isSignedType = isSigned(type);
  if (sizeOf(type) == 8)
    return isSignedType ? sized<U64, true>(op) : sized<U64, false>(op);
  if (sizeOf(type) != 4)
    return nullptr;
  if (Handler handler = isSignedType ? word<true>(op) : word<false>(op))
    return handler;
  return isSignedType ? sized<U32, true>(op) : sized<U32, false>(op);
}

} // namespace tally::emulator::TALLY_EMULATOR_ISA
