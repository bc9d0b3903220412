// What the decoders ask of the vector folder: the handler of an operation for a type.
#ifndef TALLY_LIB_EMULATOR_VECTOR_SELECT_H
#define TALLY_LIB_EMULATOR_VECTOR_SELECT_H

#include "../op.h"
#include "../types.h"

namespace tally::emulator {

/// Integer and bit operations. Operands in slots 1 to 4, the result in slot 0; where a second
/// operand has a type of its own it is said.
enum class IntegerOp : std::uint8_t {
  Add,
  Sub,
  MulLo,
  MulHi,
  MulWide,
  Mul24Lo,
  Mul24Hi,
  MadLo,
  MadHi,
  MadWide,
  Mad24Lo,
  Mad24Hi,
  Div,
  Rem,
  Min,
  Max,
  Abs,
  Neg,
  Sad,
  Shl,
  Shr, ///< the amount is 32-bit and clamps
  And,
  Or,
  Xor,
  Not,
  Cnot,
  Lop3, ///< the table is Op::extra
  Bfe,
  Bfi,
  Bfind,
  BfindShift,
  Brev,
  Popc,
  Clz,
  Fns,
  Bmsk,
  BmskWrap,
  Szext,
  SzextWrap,
  Prmt, ///< Op::extra is the mode
  ShfLeftClamp,
  ShfLeftWrap,
  ShfRightClamp,
  ShfRightWrap,
  Dp4a,
  Dp2aLo,
  Dp2aHi, ///< Op::extra: bit 0 a is signed, bit 1 b is signed
  AddSat,
  SubSat,
  MadHiSat
};

enum class FloatOp : std::uint8_t {
  Add,
  Sub,
  Mul,
  Fma,
  Div,
  Rcp,
  Sqrt,
  Rsqrt,
  Sin,
  Cos,
  Lg2,
  Ex2,
  Tanh,
  Min,
  Max,
  MinNan,
  MaxNan,
  Abs,
  Neg,
  CopySign
};
/// Bits of what modifies a float operation.
enum FloatFlags : std::uint8_t { FlushSubnormal = 1, Saturate = 2 };

enum class Comparison : std::uint8_t {
  Eq,
  Ne,
  Lt,
  Le,
  Gt,
  Ge,
  Equ,
  Neu,
  Ltu,
  Leu,
  Gtu,
  Geu,
  Num,
  Nan
};
/// How setp and set join the comparison with a predicate.
enum class Combine : std::uint8_t { None, And, Or, Xor };

/// The handlers that one instruction set's build of the folder has. Each function returns null for
/// what it lacks.
struct VectorHandlers {
  Handler (*integer)(IntegerOp op, Type type);
  /// Rounding to nearest even; other modes are not vectorised (rounding.cpp).
  Handler (*floating)(FloatOp op, Type type, std::uint8_t flags);
  /// Writes a predicate: slot 0, and its complement's combination to slot 3 unless noSlot. Slot 4
  /// is the predicate to join (Op::extra: the Combine in bits 0-1, bit 2 negates that predicate).
  Handler (*compare)(Comparison comparison, Type type, bool flush);
  Handler (*move)(std::uint32_t bytes);
  /// selp: slot 1 where predicate slot 3 (negated by Op::flags bit 0) holds, else slot 2.
  Handler (*select)(std::uint32_t bytes);
  /// Conversions that need no directed rounding. Null for what convert.cpp has to do.
  Handler (*convert)(Type to, Type from);
  /// ld: destinations in slots 0-3, the address in slot 4; `registerBytes` of a destination's row.
  Handler (*load)(Type type, std::uint32_t registerBytes, std::uint32_t count);
  Handler (*store)(Type type, std::uint32_t registerBytes, std::uint32_t count);
};

const VectorHandlers &plainHandlers();
const VectorHandlers &haswellHandlers();
/// The best that this processor runs.
const VectorHandlers &vectorHandlers();

} // namespace tally::emulator

#endif
