// The interface of the vector folder to the decoders: the handler of an operation for a type.
#ifndef TALLY_LIB_EMULATOR_VECTOR_SELECT_H
#define TALLY_LIB_EMULATOR_VECTOR_SELECT_H

#include "../op.h"
#include "../types.h"

namespace tally::emulator {

/// Integer and bit operations. Operands are in slots 1 to 4, the result is in slot 0. A comment
/// tells where a second operand has its own type.
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
/// Bits of the modifiers of a float operation.
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
/// The operation by which setp and set combine the comparison with a predicate.
enum class Combine : std::uint8_t { None, And, Or, Xor };

/// The handlers in the folder's build for one instruction set. Each function returns null for
/// operations that it lacks.
struct VectorHandlers {
  Handler (*integer)(IntegerOp op, Type type);
  /// Rounding to nearest even; other modes are not vectorised (rounding.cpp).
  Handler (*floating)(FloatOp op, Type type, std::uint8_t flags);
  /// Writes a predicate to slot 0, and the combination with its complement to slot 3 unless noSlot.
  /// Slot 4 is the predicate to combine (Op::extra: the Combine in bits 0-1, bit 2 negates that
  /// predicate).
  Handler (*compare)(Comparison comparison, Type type, bool flush);
  Handler (*move)(std::uint32_t bytes);
  /// selp: slot 1 where predicate slot 3 (negated by Op::flags bit 0) holds, else slot 2.
  Handler (*select)(std::uint32_t bytes);
  /// Conversions that need no directed rounding. Null for conversions that convert.cpp has to do.
  Handler (*convert)(Type to, Type from);
  /// ld: destinations in slots 0-3, the address in slot 4; `registerBytes` of a destination's row.
  Handler (*load)(Type type, std::uint32_t registerBytes, std::uint32_t count);
  Handler (*store)(Type type, std::uint32_t registerBytes, std::uint32_t count);
};

const VectorHandlers &plainHandlers();
const VectorHandlers &haswellHandlers();
/// Returns the handlers for the best instruction set of this processor.
const VectorHandlers &vectorHandlers();

} // namespace tally::emulator

#endif
