// Integer arithmetic, logic, shifts and bit manipulation; carries and predicate logic.
#include "decoder.h"

#include "handlers.h"

#include <bit>
#include <string_view>

namespace tally::emulator {

namespace {

using ptx::Instruction;

/// The relation of an operation's operands to its type.
enum class Shape : std::uint8_t {
  Unary,   ///< d, a
  Binary,  ///< d, a, b
  Ternary, ///< d, a, b, c
  Shift,   ///< d, a, n: the amount is 32-bit
  Wide,    ///< d twice as wide
  WideAdd, ///< d and c twice as wide
  Count,   ///< d is 32-bit
  Extract, ///< d, a, position, length
  Insert   ///< d, a, b, position, length
};

Type widened(Type type) {
  switch (type) {
  case Type::U16:
    return Type::U32;
  case Type::S16:
    return Type::S32;
  case Type::U32:
    return Type::U64;
  case Type::S32:
    return Type::S64;
  default:
    return Type::None;
  }
}

bool emitShaped(FunctionDecoder &decoder, const Instruction &instruction, IntegerOp operation,
                Type type, Shape shape, std::uint32_t extra = 0) {
  Handler handler = vectorHandlers().integer(operation, type);
  static constexpr std::size_t counts[] = {2, 3, 4, 3, 3, 4, 2, 4, 5};
  std::size_t count = counts[static_cast<std::size_t>(shape)];
  if (!handler || instruction.operands.size() != count)
    return false;
  bool wide = shape == Shape::Wide || shape == Shape::WideAdd;
  Slot slots[5];
  for (std::size_t i = 1; i < count; ++i) {
    Type each = type;
    if ((shape == Shape::Shift && i == 2) || (shape == Shape::Extract && i >= 2) ||
        (shape == Shape::Insert && i >= 3))
      each = Type::U32;
    if (shape == Shape::WideAdd && i == 3)
      each = widened(type);
    slots[i] = decoder.source(instruction.operands[i], each);
  }
  Type result = wide ? widened(type) : shape == Shape::Count ? Type::U32 : type;
  slots[0] = decoder.destination(instruction.operands[0], result);
  if (decoder.failed())
    return true;
  Op op;
  op.handler = handler;
  op.extra = extra;
  for (std::size_t i = 0; i < count; ++i)
    op.slot[i] = slots[i];
  decoder.emit(op);
  return true;
}

/// mul, mad, mul24, mad24 with .lo, .hi, .wide.
bool decodeProduct(FunctionDecoder &decoder, const Instruction &instruction, Type type) {
  bool adds = instruction.opcode.starts_with("mad");
  Shape shape = adds ? Shape::Ternary : Shape::Binary;
  if (instruction.has("wide"))
    return emitShaped(decoder, instruction, adds ? IntegerOp::MadWide : IntegerOp::MulWide, type,
                      adds ? Shape::WideAdd : Shape::Wide);
  bool high = instruction.has("hi");
  IntegerOp operation;
  if (instruction.opcode.ends_with("24"))
    operation = adds ? (high ? IntegerOp::Mad24Hi : IntegerOp::Mad24Lo)
                     : (high ? IntegerOp::Mul24Hi : IntegerOp::Mul24Lo);
  else if (adds && high && instruction.has("sat"))
    operation = IntegerOp::MadHiSat;
  else
    operation = adds ? (high ? IntegerOp::MadHi : IntegerOp::MadLo)
                     : (high ? IntegerOp::MulHi : IntegerOp::MulLo);
  return emitShaped(decoder, instruction, operation, type, shape);
}

// Predicate logic -------------------------------------------------------------------------------

template <class F> Status predicateLogic(Warp &warp, const Op &op, std::uint32_t mask) {
  std::uint32_t a = warp.predicate(op.slot[1]), b = warp.predicate(op.slot[2]);
  if (op.flags & 1u)
    a = ~a;
  if (op.flags & 2u)
    b = ~b;
  std::uint32_t &d = warp.predicate(op.slot[0]);
  d = (d & ~mask) | (F::apply(a, b) & mask);
  return Status::Next;
}
struct PredicateAnd {
  static std::uint32_t apply(std::uint32_t a, std::uint32_t b) { return a & b; }
};
struct PredicateOr {
  static std::uint32_t apply(std::uint32_t a, std::uint32_t b) { return a | b; }
};
struct PredicateXor {
  static std::uint32_t apply(std::uint32_t a, std::uint32_t b) { return a ^ b; }
};
struct PredicateNot {
  static std::uint32_t apply(std::uint32_t a, std::uint32_t) { return ~a; }
};

bool decodePredicateLogic(FunctionDecoder &decoder, const Instruction &instruction) {
  std::string_view opcode = instruction.opcode;
  bool isNot = opcode == "not";
  if (instruction.operands.size() != (isNot ? 2u : 3u))
    return false;
  Op op;
  op.handler = isNot             ? predicateLogic<PredicateNot>
               : opcode == "and" ? predicateLogic<PredicateAnd>
               : opcode == "or"  ? predicateLogic<PredicateOr>
                                 : predicateLogic<PredicateXor>;
  bool negatedA = false, negatedB = false;
  op.slot[1] = decoder.predicateSource(instruction.operands[1], negatedA);
  op.slot[2] = isNot ? op.slot[1] : decoder.predicateSource(instruction.operands[2], negatedB);
  op.slot[0] = decoder.predicateDestination(instruction.operands[0]);
  op.flags = static_cast<std::uint8_t>(negatedA | negatedB << 1);
  if (!decoder.failed() && op.slot[0] != noSlot)
    decoder.emit(op);
  return true;
}

// Carries ---------------------------------------------------------------------------------------

// The carry flag CC.CF is an additional predicate of the frame. Op::flags: 1 reads the carry, 2
// writes it. Subtraction keeps a borrow there, as PTX ISA 9.7.2 says.
enum CarryFlags : std::uint8_t { CarryIn = 1, CarryOut = 2 };

template <class T, class F> Status withCarry(Warp &warp, const Op &op, std::uint32_t mask) {
  T *d = warp.row<T>(op.slot[0]);
  const T *a = warp.row<T>(op.slot[1]), *b = warp.row<T>(op.slot[2]), *c = warp.row<T>(op.slot[3]);
  std::uint32_t &flag = warp.predicate(op.slot[5]);
  for (std::uint32_t rest = mask; rest; rest &= rest - 1) {
    auto i = static_cast<std::uint32_t>(std::countr_zero(rest));
    unsigned in = op.flags & CarryIn ? flag >> i & 1u : 0;
    bool out = false;
    d[i] = F::apply(a[i], b[i], c[i], in, out);
    if (op.flags & CarryOut)
      flag = (flag & ~(1u << i)) | static_cast<std::uint32_t>(out) << i;
  }
  return Status::Next;
}
template <class T> struct CarryAdd {
  static T apply(T a, T b, T, unsigned in, bool &out) {
    unsigned __int128 sum = static_cast<unsigned __int128>(a) + b + in;
    out = sum >> (sizeof(T) * 8) & 1;
    return static_cast<T>(sum);
  }
};
template <class T> struct CarrySub {
  static T apply(T a, T b, T, unsigned in, bool &out) {
    unsigned __int128 taken = static_cast<unsigned __int128>(b) + in;
    out = a < taken;
    return static_cast<T>(a - taken);
  }
};
template <class T, bool High, bool Signed> struct CarryMad {
  static T apply(T a, T b, T c, unsigned in, bool &out) {
    using S = std::make_signed_t<T>;
    T product;
    if constexpr (!High)
      product = a * b;
    else if constexpr (Signed)
      product = static_cast<T>((static_cast<__int128>(static_cast<S>(a)) * static_cast<S>(b)) >>
                               (sizeof(T) * 8));
    else
      product = static_cast<T>((static_cast<unsigned __int128>(a) * b) >> (sizeof(T) * 8));
    return CarryAdd<T>::apply(product, c, 0, in, out);
  }
};

template <class T> Handler carryHandler(const Instruction &instruction, bool isSignedType) {
  std::string_view opcode = instruction.opcode;
  if (opcode.starts_with("add"))
    return withCarry<T, CarryAdd<T>>;
  if (opcode.starts_with("sub"))
    return withCarry<T, CarrySub<T>>;
  if (!instruction.has("hi"))
    return withCarry<T, CarryMad<T, false, false>>;
  return isSignedType ? withCarry<T, CarryMad<T, true, true>>
                      : withCarry<T, CarryMad<T, true, false>>;
}

bool decodeCarry(FunctionDecoder &decoder, const Instruction &instruction, Type type) {
  bool isMad = instruction.opcode.starts_with("mad");
  if (instruction.operands.size() != (isMad ? 4u : 3u) || sizeOf(type) < 4)
    return false;
  Op op;
  op.handler = sizeOf(type) == 8 ? carryHandler<std::uint64_t>(instruction, isSigned(type))
                                 : carryHandler<std::uint32_t>(instruction, isSigned(type));
  op.slot[1] = decoder.source(instruction.operands[1], type);
  op.slot[2] = decoder.source(instruction.operands[2], type);
  op.slot[3] =
      isMad ? decoder.source(instruction.operands[3], type) : decoder.constant(0, sizeOf(type));
  op.slot[0] = decoder.destination(instruction.operands[0], type);
  op.slot[5] = decoder.carryFlag();
  bool takes = instruction.opcode.ends_with("c");
  op.flags =
      static_cast<std::uint8_t>((takes ? CarryIn : 0) | (instruction.has("cc") ? CarryOut : 0));
  if (!decoder.failed())
    decoder.emit(op);
  return true;
}

// Bits ------------------------------------------------------------------------------------------

bool decodeLop3(FunctionDecoder &decoder, const Instruction &instruction) {
  const auto &operands = instruction.operands;
  bool joins = operands.size() == 6; // lop3.and d|p, a, b, c, table, q: p is (d != 0) and q
  if ((operands.size() != 5 && !joins) || operands[4].kind != ptx::OperandKind::Integer)
    return false;
  if (joins && (operands[0].kind != ptx::OperandKind::Pair || operands[0].children.size() != 2))
    return false;
  Op op;
  op.handler = vectorHandlers().integer(IntegerOp::Lop3, Type::B32);
  for (std::size_t i = 1; i <= 3; ++i)
    op.slot[i] = decoder.source(instruction.operands[i], Type::B32);
  op.slot[0] = decoder.destination(joins ? operands[0].children[0] : operands[0], Type::B32);
  op.extra = static_cast<std::uint32_t>(operands[4].bits);
  Op test;
  if (joins) {
    bool negated = false;
    test.handler = vectorHandlers().compare(Comparison::Ne, Type::B32, false);
    test.slot[0] = decoder.predicateDestination(operands[0].children[1]);
    test.slot[1] = op.slot[0];
    test.slot[2] = decoder.constant(0, 4);
    test.slot[4] = decoder.predicateSource(operands[5], negated);
    test.extra = static_cast<std::uint32_t>(instruction.has("or") ? Combine::Or : Combine::And) |
                 (negated ? 4u : 0u);
  }
  if (decoder.failed())
    return true;
  decoder.emit(op);
  if (joins && test.slot[0] != noSlot)
    decoder.emit(test);
  return true;
}

bool decodePrmt(FunctionDecoder &decoder, const Instruction &instruction) {
  static constexpr std::string_view modes[] = {"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"};
  std::uint32_t mode = 0;
  for (std::uint32_t i = 0; i < 6; ++i)
    if (instruction.has(modes[i]))
      mode = i + 1;
  return emitShaped(decoder, instruction, IntegerOp::Prmt, Type::B32, Shape::Ternary, mode);
}

bool decodeDot(FunctionDecoder &decoder, const Instruction &instruction) {
  std::uint32_t extra = (typeBeforeLast(instruction) == Type::S32 ? 1u : 0u) |
                        (lastType(instruction) == Type::S32 ? 2u : 0u);
  IntegerOp operation = instruction.opcode == "dp4a" ? IntegerOp::Dp4a
                        : instruction.has("hi")      ? IntegerOp::Dp2aHi
                                                     : IntegerOp::Dp2aLo;
  return emitShaped(decoder, instruction, operation, Type::U32, Shape::Ternary, extra);
}

struct Simple {
  std::string_view opcode;
  IntegerOp operation;
  Shape shape;
};
constexpr Simple simple[] = {
    {"add", IntegerOp::Add, Shape::Binary},  {"sub", IntegerOp::Sub, Shape::Binary},
    {"div", IntegerOp::Div, Shape::Binary},  {"rem", IntegerOp::Rem, Shape::Binary},
    {"min", IntegerOp::Min, Shape::Binary},  {"max", IntegerOp::Max, Shape::Binary},
    {"abs", IntegerOp::Abs, Shape::Unary},   {"neg", IntegerOp::Neg, Shape::Unary},
    {"sad", IntegerOp::Sad, Shape::Ternary}, {"shl", IntegerOp::Shl, Shape::Shift},
    {"shr", IntegerOp::Shr, Shape::Shift},   {"and", IntegerOp::And, Shape::Binary},
    {"or", IntegerOp::Or, Shape::Binary},    {"xor", IntegerOp::Xor, Shape::Binary},
    {"not", IntegerOp::Not, Shape::Unary},   {"cnot", IntegerOp::Cnot, Shape::Unary},
    {"bfe", IntegerOp::Bfe, Shape::Extract}, {"bfi", IntegerOp::Bfi, Shape::Insert},
    {"brev", IntegerOp::Brev, Shape::Unary}, {"popc", IntegerOp::Popc, Shape::Count},
    {"clz", IntegerOp::Clz, Shape::Count},   {"fns", IntegerOp::Fns, Shape::Ternary},
};

bool decodeFunnel(FunctionDecoder &decoder, const Instruction &instruction) {
  bool left = instruction.has("l"), wrap = instruction.has("wrap");
  IntegerOp operation = left ? (wrap ? IntegerOp::ShfLeftWrap : IntegerOp::ShfLeftClamp)
                             : (wrap ? IntegerOp::ShfRightWrap : IntegerOp::ShfRightClamp);
  return emitShaped(decoder, instruction, operation, Type::B32, Shape::Ternary);
}

} // namespace

bool decodeInteger(FunctionDecoder &decoder, const Instruction &instruction) {
  std::string_view opcode = instruction.opcode;
  Type type = lastType(instruction);
  if (opcode == "lop3")
    return decodeLop3(decoder, instruction);
  if (opcode == "prmt")
    return decodePrmt(decoder, instruction);
  if (opcode == "dp4a" || opcode == "dp2a")
    return decodeDot(decoder, instruction);
  if (opcode == "shf")
    return decodeFunnel(decoder, instruction);
  if (type == Type::Pred &&
      (opcode == "and" || opcode == "or" || opcode == "xor" || opcode == "not"))
    return decodePredicateLogic(decoder, instruction);
  if (type == Type::None || type == Type::Pred || isFloat(type) || type == Type::F16x2 ||
      type == Type::BF16x2)
    return false;
  if (type == Type::U16x2 || type == Type::S16x2)
    return decodePairs(decoder, instruction, type);
  if (opcode == "addc" || opcode == "subc" || opcode == "madc" || instruction.has("cc"))
    return decodeCarry(decoder, instruction, type);
  if (opcode == "mul" || opcode == "mad" || opcode == "mul24" || opcode == "mad24")
    return decodeProduct(decoder, instruction, type);
  if (opcode == "bfind")
    return emitShaped(decoder, instruction,
                      instruction.has("shiftamt") ? IntegerOp::BfindShift : IntegerOp::Bfind, type,
                      Shape::Count);
  if (opcode == "bmsk")
    return emitShaped(decoder, instruction,
                      instruction.has("wrap") ? IntegerOp::BmskWrap : IntegerOp::Bmsk, Type::B32,
                      Shape::Binary);
  if (opcode == "szext")
    return emitShaped(decoder, instruction,
                      instruction.has("wrap") ? IntegerOp::SzextWrap : IntegerOp::Szext, type,
                      Shape::Binary);
  if (instruction.has("sat") && (opcode == "add" || opcode == "sub"))
    return emitShaped(decoder, instruction, opcode == "add" ? IntegerOp::AddSat : IntegerOp::SubSat,
                      type, Shape::Binary);
  for (const Simple &each : simple)
    if (each.opcode == opcode)
      return emitShaped(decoder, instruction, each.operation, type, each.shape);
  return false;
}

} // namespace tally::emulator
