// mov, packing and unpacking, cvta, isspacep, and the address of locals. PTX ISA 9.7.9.
#include "access.h"
#include "decoder.h"
#include "handlers.h"

#include <bit>
#include <string_view>
#include <vector>

namespace tally::emulator {

namespace {

using ptx::Instruction;
using ptx::OperandKind;

template <class T> Status localAddress(Warp &warp, const Op &op, std::uint32_t mask) {
  auto value = static_cast<T>(warp.group().local + static_cast<std::uint64_t>(op.immediate));
  T *d = warp.row<T>(op.slot[0]);
  for (; mask; mask &= mask - 1)
    d[std::countr_zero(mask)] = value;
  return Status::Next;
}

Status movePredicate(Warp &warp, const Op &op, std::uint32_t mask) {
  std::uint32_t a = warp.predicate(op.slot[1]);
  if (op.flags & 1u)
    a = ~a;
  std::uint32_t &d = warp.predicate(op.slot[0]);
  d = (d & ~mask) | (a & mask);
  return Status::Next;
}

// Copies pieces of `extra` bytes each between a wide row and `flags` narrow rows.
Status packPieces(Warp &warp, const Op &op, std::uint32_t mask) {
  std::byte *wide = warp.row<std::byte>(op.slot[7]);
  std::uint32_t count = op.flags, bytes = op.extra;
  for (std::uint32_t n = 0; n < count; ++n) {
    const std::byte *narrow = warp.row<std::byte>(op.slot[n]);
    for (std::uint32_t rest = mask; rest; rest &= rest - 1) {
      auto i = static_cast<std::uint32_t>(std::countr_zero(rest));
      std::memcpy(wide + std::size_t{i} * bytes * count + std::size_t{n} * bytes,
                  narrow + std::size_t{i} * (bytes == 1 ? 2 : bytes), bytes);
    }
  }
  return Status::Next;
}
Status unpackPieces(Warp &warp, const Op &op, std::uint32_t mask) {
  const std::byte *wide = warp.row<std::byte>(op.slot[7]);
  std::uint32_t count = op.flags, bytes = op.extra;
  for (std::uint32_t n = 0; n < count; ++n) {
    if (op.slot[n] == noSlot)
      continue;
    std::byte *narrow = warp.row<std::byte>(op.slot[n]);
    for (std::uint32_t rest = mask; rest; rest &= rest - 1) {
      auto i = static_cast<std::uint32_t>(std::countr_zero(rest));
      std::byte *to = narrow + std::size_t{i} * (bytes == 1 ? 2 : bytes);
      if (bytes == 1)
        to[1] = std::byte{0};
      std::memcpy(to, wide + std::size_t{i} * bytes * count + std::size_t{n} * bytes, bytes);
    }
  }
  return Status::Next;
}

Type pieceType(std::uint32_t bytes) {
  return bytes == 1   ? Type::B8
         : bytes == 2 ? Type::B16
         : bytes == 4 ? Type::B32
         : bytes == 8 ? Type::B64
                      : Type::None;
}

/// mov.b32 %r, {%rs0, %rs1} and the reverse.
bool decodePack(FunctionDecoder &decoder, const Instruction &instruction, Type type, bool packs) {
  const ptx::Operand &vector = instruction.operands[packs ? 1 : 0];
  const ptx::Operand &scalar = instruction.operands[packs ? 0 : 1];
  auto count = static_cast<std::uint32_t>(vector.children.size());
  if (count != 2 && count != 4)
    return false;
  Type piece = pieceType(sizeOf(type) / count);
  if (piece == Type::None)
    return false;
  Op op;
  op.handler = packs ? packPieces : unpackPieces;
  op.extra = sizeOf(piece);
  op.flags = static_cast<std::uint8_t>(count);
  for (std::uint32_t n = 0; n < count; ++n) {
    const ptx::Operand &each = vector.children[n];
    if (packs)
      op.slot[n] = decoder.source(each, piece);
    else if (each.kind != OperandKind::Sink)
      op.slot[n] = decoder.destination(each, piece);
  }
  op.slot[7] = packs ? decoder.destination(scalar, type) : decoder.source(scalar, type);
  if (!decoder.failed())
    decoder.emit(op);
  return true;
}

/// Returns the elements of a vector operand: `{a, b}`, a vector register or a special register,
/// each written `%v.x`, `%v.y`, …
bool vectorElements(FunctionDecoder &decoder, const ptx::Operand &operand, std::size_t count,
                    std::vector<ptx::Operand> &elements) {
  static constexpr std::string_view components[] = {"x", "y", "z", "w"};
  if (operand.kind == OperandKind::Vector) {
    elements.assign(operand.children.begin(), operand.children.end());
  } else {
    const RegisterInfo *info = decoder.registerOf(operand);
    if (!operand.component.empty() ||
        (info ? info->width != count : operand.kind != OperandKind::SpecialRegister))
      return false;
    elements.assign(count, operand);
    for (std::size_t i = 0; i < count; ++i)
      elements[i].component = components[i];
  }
  return elements.size() == count;
}

/// mov.v2, mov.v4: reads all elements before it writes any.
bool decodeMoveVector(FunctionDecoder &decoder, const Instruction &instruction, Type type,
                      std::size_t count) {
  std::vector<ptx::Operand> to, from;
  Handler handler = vectorHandlers().move(registerSizeOf(type));
  if (!handler || !vectorElements(decoder, instruction.operands[0], count, to) ||
      !vectorElements(decoder, instruction.operands[1], count, from))
    return false;
  std::vector<Slot> values;
  for (const ptx::Operand &each : from) {
    values.push_back(decoder.temporary(registerSizeOf(type)));
    Slot source = decoder.source(each, type);
    if (decoder.failed())
      return true;
    decoder.emit(handler, {values.back(), source});
  }
  for (std::size_t i = 0; i < count && !decoder.failed(); ++i)
    if (Slot slot = decoder.destination(to[i], type); !decoder.failed())
      decoder.emit(handler, {slot, values[i]});
  return true;
}

bool decodeMov(FunctionDecoder &decoder, const Instruction &instruction) {
  if (instruction.operands.size() != 2)
    return false;
  Type type = lastType(instruction);
  const ptx::Operand &to = instruction.operands[0], &from = instruction.operands[1];
  if (type == Type::Pred) {
    bool negated = false;
    Op op;
    op.handler = movePredicate;
    op.slot[1] = decoder.predicateSource(from, negated);
    op.slot[0] = decoder.predicateDestination(to);
    op.flags = negated ? 1 : 0;
    if (!decoder.failed() && op.slot[0] != noSlot)
      decoder.emit(op);
    return true;
  }
  for (std::size_t count : {2, 4})
    if (instruction.has(count == 2 ? "v2" : "v4"))
      return decodeMoveVector(decoder, instruction, type, count);
  bool packs = from.kind == OperandKind::Vector, unpacks = to.kind == OperandKind::Vector;
  if (packs && unpacks)
    return false;
  if (packs || unpacks)
    return decodePack(decoder, instruction, type, packs);
  Handler handler = vectorHandlers().move(registerSizeOf(type));
  if (!handler)
    return false;
  Slot a = decoder.source(from, type);
  Slot d = decoder.destination(to, type);
  if (!decoder.failed())
    decoder.emit(handler, {d, a});
  return true;
}

std::uint64_t windowOf(Space space) {
  switch (space) {
  case Space::Shared:
  case Space::SharedCluster:
    return sharedWindow;
  case Space::Local:
    return localWindow;
  default:
    return 0; // global, const and parameter addresses are generic addresses
  }
}

bool decodeCvta(FunctionDecoder &decoder, const Instruction &instruction) {
  if (instruction.operands.size() != 2)
    return false;
  Type type = lastType(instruction);
  std::uint32_t bytes = sizeOf(type);
  std::uint64_t window = windowOf(spaceOf(instruction));
  Slot a = decoder.source(instruction.operands[1], type);
  Slot d = decoder.destination(instruction.operands[0], type);
  if (decoder.failed() || (bytes != 8 && bytes != 4))
    return decoder.failed();
  if (window == 0) {
    decoder.emit(vectorHandlers().move(bytes), {d, a});
    return true;
  }
  IntegerOp operation = instruction.has("to") ? IntegerOp::Sub : IntegerOp::Add;
  decoder.emit(vectorHandlers().integer(operation, type), {d, a, decoder.constant(window, bytes)});
  return true;
}

bool isOwnShared(const Block &block, std::uint64_t offset) {
  std::uint64_t named = offset >> clusterRankShift;
  return named == 0 || named == block.rank + 1;
}

Status isSpace(Warp &warp, const Op &op, std::uint32_t mask) {
  const auto *a = warp.row<std::uint64_t>(op.slot[1]);
  std::uint32_t &d = warp.predicate(op.slot[0]);
  for (; mask; mask &= mask - 1) {
    int i = std::countr_zero(mask);
    bool inside = false;
    if (op.immediate) {
      inside = liesInWindow(a[i], static_cast<std::uint64_t>(op.immediate));
      if (op.space == Space::Shared)
        inside = inside && isOwnShared(*warp.block, a[i] - sharedWindow);
    } else {
      bool isConst = false;
      for (const Segment &each : warp.block->program->constSegments)
        isConst |= a[i] >= each.begin && a[i] < each.end;
      // Host memory that the machine adopted lies outside of the window.
      bool isGlobal = !isConst && !liesInWindow(a[i], sharedWindow) &&
                      !liesInWindow(a[i], localWindow) && !liesInWindow(a[i], parameterWindow);
      inside = op.flags ? isConst : isGlobal;
    }
    d = (d & ~(1u << i)) | static_cast<std::uint32_t>(inside) << i;
  }
  return Status::Next;
}

bool decodeIsspacep(FunctionDecoder &decoder, const Instruction &instruction) {
  if (instruction.operands.size() != 2)
    return false;
  Space space = spaceOf(instruction);
  Op op;
  op.handler = isSpace;
  op.space = space;
  op.flags = instruction.has("const") ? 1 : 0;
  op.immediate =
      static_cast<std::int64_t>(space == Space::Parameter ? parameterWindow : windowOf(space));
  op.slot[1] = decoder.source(instruction.operands[1], Type::U64);
  op.slot[0] = decoder.predicateDestination(instruction.operands[0]);
  if (!decoder.failed() && op.slot[0] != noSlot)
    decoder.emit(op);
  return true;
}

} // namespace

Status localAddress32(Warp &warp, const Op &op, std::uint32_t mask) {
  return localAddress<std::uint32_t>(warp, op, mask);
}
Status localAddress64(Warp &warp, const Op &op, std::uint32_t mask) {
  return localAddress<std::uint64_t>(warp, op, mask);
}

bool decodeMove(FunctionDecoder &decoder, const Instruction &instruction) {
  if (instruction.opcode == "mov")
    return decodeMov(decoder, instruction);
  if (instruction.opcode == "cvta")
    return decodeCvta(decoder, instruction);
  if (instruction.opcode == "isspacep")
    return decodeIsspacep(decoder, instruction);
  return false;
}

} // namespace tally::emulator
