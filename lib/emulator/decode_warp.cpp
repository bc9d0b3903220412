// Decodes shfl, vote, match, redux, elect, activemask and bar.warp.sync.
#include "decoder.h"
#include "warp_ops.h"

namespace tally::emulator {

using ptx::Instruction;
using ptx::OperandKind;

namespace {

/// Whether it is a `.sync` form; since sm_70 there are no other forms.
bool isSync(const Instruction &instruction) { return instruction.has("sync"); }

void splitDestination(FunctionDecoder &decoder, const ptx::Operand &to, Op &op) {
  const ptx::Operand *value = &to, *predicate = nullptr;
  if (to.kind == OperandKind::Pair && to.children.size() == 2) {
    value = &to.children[0];
    predicate = &to.children[1];
  }
  op.slot[0] = decoder.destination(*value, Type::B32);
  if (predicate)
    op.slot[1] = decoder.predicateDestination(*predicate);
}

bool decodeShuffle(FunctionDecoder &decoder, const Instruction &instruction) {
  const auto &operands = instruction.operands;
  if (!isSync(instruction) || operands.size() != 5)
    return false;
  Op op;
  op.handler = syncOp;
  WarpOp kind = instruction.has("up")     ? WarpOp::ShuffleUp
                : instruction.has("down") ? WarpOp::ShuffleDown
                : instruction.has("bfly") ? WarpOp::ShuffleButterfly
                                          : WarpOp::ShuffleIndex;
  op.extra = static_cast<std::uint32_t>(kind);
  splitDestination(decoder, operands[0], op);
  op.slot[2] = decoder.source(operands[1], Type::B32);
  op.slot[3] = decoder.source(operands[2], Type::B32);
  op.slot[4] = decoder.source(operands[3], Type::B32);
  op.slot[5] = decoder.source(operands[4], Type::B32);
  if (!decoder.failed())
    decoder.emit(op);
  return true;
}

bool decodeVote(FunctionDecoder &decoder, const Instruction &instruction) {
  const auto &operands = instruction.operands;
  if (!isSync(instruction) || operands.size() != 3)
    return false;
  Op op;
  op.handler = syncOp;
  WarpOp kind = instruction.has("all")   ? WarpOp::VoteAll
                : instruction.has("any") ? WarpOp::VoteAny
                : instruction.has("uni") ? WarpOp::VoteUniform
                                         : WarpOp::VoteBallot;
  op.extra = static_cast<std::uint32_t>(kind);
  bool negated = false;
  op.slot[2] = decoder.predicateSource(operands[1], negated);
  op.flags = negated ? 1 : 0;
  op.slot[5] = decoder.source(operands[2], Type::B32);
  if (kind == WarpOp::VoteBallot)
    op.slot[0] = decoder.destination(operands[0], Type::B32);
  else
    op.slot[1] = decoder.predicateDestination(operands[0]);
  if (!decoder.failed())
    decoder.emit(op);
  return true;
}

bool decodeMatch(FunctionDecoder &decoder, const Instruction &instruction) {
  const auto &operands = instruction.operands;
  Type type = lastType(instruction);
  if (!isSync(instruction) || operands.size() != 3 || sizeOf(type) < 4)
    return false;
  bool wide = sizeOf(type) == 8;
  Op op;
  op.handler = syncOp;
  op.extra = static_cast<std::uint32_t>(instruction.has("all")
                                            ? (wide ? WarpOp::MatchAll64 : WarpOp::MatchAll32)
                                            : (wide ? WarpOp::MatchAny64 : WarpOp::MatchAny32));
  splitDestination(decoder, operands[0], op);
  op.slot[2] = decoder.source(operands[1], type);
  op.slot[5] = decoder.source(operands[2], Type::B32);
  if (!decoder.failed())
    decoder.emit(op);
  return true;
}

bool decodeRedux(FunctionDecoder &decoder, const Instruction &instruction) {
  const auto &operands = instruction.operands;
  Type type = lastType(instruction);
  if (operands.size() != 3)
    return false;
  bool isFloating = type == Type::F32, least = instruction.has("min");
  if (isFloating && !least && !instruction.has("max"))
    return false;
  bool isSignedType = type == Type::S32;
  WarpOp kind =
      instruction.has("add")   ? WarpOp::ReduceAddU32
      : instruction.has("min") ? (isSignedType ? WarpOp::ReduceMinS32 : WarpOp::ReduceMinU32)
      : instruction.has("max") ? (isSignedType ? WarpOp::ReduceMaxS32 : WarpOp::ReduceMaxU32)
      : instruction.has("and") ? WarpOp::ReduceAnd
      : instruction.has("or")  ? WarpOp::ReduceOr
                               : WarpOp::ReduceXor;
  if (isFloating)
    kind = least ? WarpOp::ReduceMinF32 : WarpOp::ReduceMaxF32;
  Op op;
  op.handler = syncOp;
  op.extra = static_cast<std::uint32_t>(kind);
  op.flags = static_cast<std::uint8_t>((instruction.has("abs") ? ReduceMagnitude : 0) |
                                       (instruction.has("NaN") ? ReduceNan : 0));
  op.slot[0] = decoder.destination(operands[0], Type::B32);
  op.slot[2] = decoder.source(operands[1], Type::B32);
  op.slot[5] = decoder.source(operands[2], Type::B32);
  if (!decoder.failed())
    decoder.emit(op);
  return true;
}

bool decodeElect(FunctionDecoder &decoder, const Instruction &instruction) {
  if (instruction.operands.size() != 2)
    return false;
  Op op;
  op.handler = syncOp;
  op.extra = static_cast<std::uint32_t>(WarpOp::Elect);
  splitDestination(decoder, instruction.operands[0], op);
  op.slot[5] = decoder.source(instruction.operands[1], Type::B32);
  if (!decoder.failed())
    decoder.emit(op);
  return true;
}

} // namespace

void emitWholeWarp(FunctionDecoder &decoder) {
  auto place = static_cast<std::uint32_t>(decoder.program().code.size());
  decoder.emit(wholeWarp, {}).extra =
      static_cast<std::uint32_t>(WarpOp::WholeWarp) | place << placeShift;
}

bool decodeWarpOp(FunctionDecoder &decoder, const Instruction &instruction) {
  std::string_view opcode = instruction.opcode;
  if (opcode == "shfl")
    return decodeShuffle(decoder, instruction);
  if (opcode == "vote")
    return decodeVote(decoder, instruction);
  if (opcode == "match")
    return decodeMatch(decoder, instruction);
  if (opcode == "redux")
    return decodeRedux(decoder, instruction);
  if (opcode == "elect")
    return decodeElect(decoder, instruction);
  if (instruction.operands.size() != 1)
    return false;
  if (opcode == "activemask") {
    Slot d = decoder.destination(instruction.operands[0], Type::B32);
    if (!decoder.failed())
      decoder.emit(activeMask, {d});
    return true;
  }
  if (opcode == "bar" && instruction.has("warp")) {
    Op op;
    op.handler = syncOp;
    op.extra = static_cast<std::uint32_t>(WarpOp::BarrierWarp);
    op.slot[5] = decoder.source(instruction.operands[0], Type::B32);
    if (!decoder.failed())
      decoder.emit(op);
    return true;
  }
  return false;
}

} // namespace tally::emulator
