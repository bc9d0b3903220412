// The SIMD video instructions on four bytes or two halves of a register, without selectors and
// masks. PTX ISA 9.7.18.
#include "decoder.h"
#include "handlers.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

namespace tally::emulator {

namespace {

using ptx::Instruction;

enum class VideoOp : std::uint8_t { Add, Sub, Average, AbsoluteDifference, Min, Max };
// Op::flags: bits 0-2 the signedness of d, a, b; bit 3 saturates, bit 4 accumulates, bit 5 means
// bytes.
enum VideoFlags : std::uint8_t {
  SignedD = 1,
  SignedA = 2,
  SignedB = 4,
  SaturateParts = 8,
  AddUp = 16,
  OfBytes = 32
};

std::int32_t part(std::uint32_t bits, unsigned width, unsigned n, bool isSignedPart) {
  std::uint32_t value = bits >> (n * width) << (32 - width);
  return isSignedPart ? static_cast<std::int32_t>(value) >> (32 - width)
                      : static_cast<std::int32_t>(value >> (32 - width));
}

std::int32_t apply(VideoOp operation, std::int32_t a, std::int32_t b) {
  switch (operation) {
  case VideoOp::Add:
    return a + b;
  case VideoOp::Sub:
    return a - b;
  case VideoOp::Average: // rounded away from zero, as in the ISA
    return (a + b + (a + b >= 0 ? 1 : -1)) / 2;
  case VideoOp::AbsoluteDifference:
    return std::abs(a - b);
  case VideoOp::Min:
    return std::min(a, b);
  case VideoOp::Max:
    return std::max(a, b);
  }
  return 0;
}

Status parts(Warp &warp, const Op &op, std::uint32_t mask) {
  auto *d = warp.row<std::uint32_t>(op.slot[0]);
  const auto *a = warp.row<std::uint32_t>(op.slot[1]), *b = warp.row<std::uint32_t>(op.slot[2]);
  const auto *c = warp.row<std::uint32_t>(op.slot[3]);
  auto operation = static_cast<VideoOp>(op.extra);
  unsigned width = op.flags & OfBytes ? 8 : 16;
  bool isSignedResult = op.flags & SignedD;
  std::int32_t most = (1 << (isSignedResult ? width - 1 : width)) - 1;
  std::int32_t least = isSignedResult ? -most - 1 : 0;
  for (; mask; mask &= mask - 1) {
    int i = std::countr_zero(mask);
    std::uint32_t packed = 0, sum = c[i];
    for (unsigned n = 0; n < 32 / width; ++n) {
      std::int32_t result = apply(operation, part(a[i], width, n, op.flags & SignedA),
                                  part(b[i], width, n, op.flags & SignedB));
      if (op.flags & SaturateParts)
        result = std::clamp(result, least, most);
      sum += static_cast<std::uint32_t>(result);
      packed |= (static_cast<std::uint32_t>(result) & ((1u << width) - 1)) << (n * width);
    }
    d[i] = op.flags & AddUp ? sum : packed;
  }
  return Status::Next;
}

} // namespace

bool decodeVideo(FunctionDecoder &decoder, const Instruction &instruction) {
  struct Known {
    std::string_view name; ///< the name before the 2 or 4
    VideoOp operation;
  };
  static constexpr Known known[] = {
      {"vadd", VideoOp::Add}, {"vsub", VideoOp::Sub}, {"vavrg", VideoOp::Average},
      {"vmin", VideoOp::Min}, {"vmax", VideoOp::Max}, {"vabsdiff", VideoOp::AbsoluteDifference}};
  std::string_view opcode = instruction.opcode;
  if (opcode.size() < 5 || (opcode.back() != '2' && opcode.back() != '4'))
    return false;
  const Known *found = std::find_if(std::begin(known), std::end(known), [&](const Known &each) {
    return each.name == opcode.substr(0, opcode.size() - 1);
  });
  auto modifiers = instruction.modifiers;
  if (found == std::end(known) || modifiers.size() < 3 || instruction.operands.size() != 4)
    return false;
  Op op;
  op.handler = parts;
  op.extra = static_cast<std::uint32_t>(found->operation);
  op.flags = static_cast<std::uint8_t>(
      (modifiers[0] == "s32" ? SignedD : 0) | (modifiers[1] == "s32" ? SignedA : 0) |
      (modifiers[2] == "s32" ? SignedB : 0) | (instruction.has("sat") ? SaturateParts : 0) |
      (instruction.has("add") ? AddUp : 0) | (opcode.back() == '4' ? OfBytes : 0));
  for (std::size_t i = 0; i < 4; ++i) {
    if (!instruction.operands[i].component.empty())
      return decoder.fail("selectors and masks of video instructions are not implemented");
    op.slot[i] = i == 0 ? decoder.destination(instruction.operands[0], Type::B32)
                        : decoder.source(instruction.operands[i], Type::B32);
  }
  if (!decoder.failed())
    decoder.emit(op);
  return true;
}

} // namespace tally::emulator
