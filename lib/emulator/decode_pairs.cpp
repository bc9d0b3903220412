// add, min and max on two 16-bit integers in a word. PTX ISA 9.7.1.1, 9.7.1.14, 9.7.1.15.
#include "decoder.h"

#include <algorithm>
#include <bit>

namespace tally::emulator {

namespace {

enum class PairOp : std::uint8_t { Add, Min, Max };
enum PairFlags : std::uint8_t { SignedHalves = 4, Relu = 8 }; // and a PairOp

std::uint32_t applyToHalf(std::uint32_t a, std::uint32_t b, std::uint8_t flags) {
  auto operation = static_cast<PairOp>(flags & 3u);
  if (operation == PairOp::Add)
    return (a + b) & 0xffffu;
  auto value = [&](std::uint32_t half) {
    return flags & SignedHalves ? std::int32_t{static_cast<std::int16_t>(half)}
                                : static_cast<std::int32_t>(half);
  };
  std::int32_t chosen =
      operation == PairOp::Min ? std::min(value(a), value(b)) : std::max(value(a), value(b));
  if (flags & Relu)
    chosen = std::max(chosen, 0);
  return static_cast<std::uint32_t>(chosen) & 0xffffu;
}

Status applyToPairs(Warp &warp, const Op &op, std::uint32_t mask) {
  auto *d = warp.row<std::uint32_t>(op.slot[0]);
  const auto *a = warp.row<std::uint32_t>(op.slot[1]), *b = warp.row<std::uint32_t>(op.slot[2]);
  for (; mask; mask &= mask - 1) {
    int i = std::countr_zero(mask);
    d[i] = applyToHalf(a[i] & 0xffffu, b[i] & 0xffffu, op.flags) |
           applyToHalf(a[i] >> 16, b[i] >> 16, op.flags) << 16;
  }
  return Status::Next;
}

} // namespace

bool decodePairs(FunctionDecoder &decoder, const ptx::Instruction &instruction, Type type) {
  std::string_view opcode = instruction.opcode;
  if ((opcode != "add" && opcode != "min" && opcode != "max") || instruction.has("sat") ||
      instruction.operands.size() != 3)
    return false;
  PairOp operation = opcode == "add" ? PairOp::Add : opcode == "min" ? PairOp::Min : PairOp::Max;
  Op op;
  op.handler = applyToPairs;
  op.flags = static_cast<std::uint8_t>(static_cast<std::uint8_t>(operation) |
                                       (type == Type::S16x2 ? SignedHalves : 0) |
                                       (instruction.has("relu") ? Relu : 0));
  op.slot[1] = decoder.source(instruction.operands[1], Type::B32);
  op.slot[2] = decoder.source(instruction.operands[2], Type::B32);
  op.slot[0] = decoder.destination(instruction.operands[0], Type::B32);
  if (!decoder.failed())
    decoder.emit(op);
  return true;
}

} // namespace tally::emulator
