// Operations among the lanes of a warp. PTX ISA 9.7.9.6 (shfl), 9.7.13 (vote, match, activemask,
// redux, elect, bar.warp).
//
// A `.sync` operation waits for all live lanes that its member mask names. Lanes may come by
// different instructions of the same kind and mask, so each brings its operands in the warp's
// SyncBuffers, and takes its result when the last has come.
#include "scheduling.h"

#include "decoder.h"
#include "handlers.h"

#include <fmt/format.h>

#include <bit>

namespace tally::emulator {

namespace {

using ptx::Instruction;
using ptx::OperandKind;

enum class WarpOp : std::uint8_t {
  ShuffleUp,
  ShuffleDown,
  ShuffleButterfly,
  ShuffleIndex,
  VoteAll,
  VoteAny,
  VoteUniform,
  VoteBallot,
  MatchAny32,
  MatchAny64,
  MatchAll32,
  MatchAll64,
  ReduceAddU32,
  ReduceMinU32,
  ReduceMaxU32,
  ReduceMinS32,
  ReduceMaxS32,
  ReduceAnd,
  ReduceOr,
  ReduceXor,
  ReduceMinF32,
  ReduceMaxF32,
  Elect,
  BarrierWarp,
  WholeWarp ///< the lanes go on as one group; the bits above tell one place from another
};
constexpr std::uint32_t placeShift = 8;

// Op::slot: 0 destination, 1 second (predicate) destination, 2 value, 3 b, 4 c, 5 the member mask.
// Op::extra is the WarpOp; flags bit 0 negates a predicate value.
WarpOp kindOf(const Op &op) { return static_cast<WarpOp>(op.extra & 0xffu); }

bool takesPredicate(WarpOp kind) { return kind >= WarpOp::VoteAll && kind <= WarpOp::VoteBallot; }
bool takesWide(WarpOp kind) { return kind == WarpOp::MatchAny64 || kind == WarpOp::MatchAll64; }

void bring(Warp &warp, const Op &op, std::uint32_t mask) {
  WarpOp kind = kindOf(op);
  for (std::uint32_t rest = mask; rest; rest &= rest - 1) {
    int i = std::countr_zero(rest);
    if (takesPredicate(kind)) {
      std::uint32_t value = warp.predicate(op.slot[2]) >> i & 1u;
      warp.sync.value[i] = value ^ (op.flags & 1u);
    } else if (op.slot[2] != noSlot) {
      warp.sync.value[i] = takesWide(kind) ? warp.row<std::uint64_t>(op.slot[2])[i]
                                           : warp.row<std::uint32_t>(op.slot[2])[i];
    }
    if (op.slot[3] != noSlot) {
      warp.sync.first[i] = warp.row<std::uint32_t>(op.slot[3])[i];
      warp.sync.second[i] = warp.row<std::uint32_t>(op.slot[4])[i];
    }
  }
}

void setPredicate(Warp &warp, Slot slot, std::uint32_t lane, bool value) {
  if (slot == noSlot)
    return;
  std::uint32_t &d = warp.predicate(slot);
  d = (d & ~(1u << lane)) | static_cast<std::uint32_t>(value) << lane;
}

struct Source {
  std::uint32_t lane;
  bool valid;
};
Source shuffleSource(WarpOp kind, std::uint32_t lane, std::uint32_t b, std::uint32_t c) {
  std::uint32_t clamp = c & 31u, segment = c >> 8 & 31u;
  b &= 31u;
  auto most = static_cast<std::int32_t>((lane & segment) | (clamp & ~segment));
  auto least = static_cast<std::int32_t>(lane & segment);
  auto self = static_cast<std::int32_t>(lane), by = static_cast<std::int32_t>(b), j = 0;
  bool valid = false;
  switch (kind) {
  case WarpOp::ShuffleUp:
    j = self - by;
    valid = j >= most;
    break;
  case WarpOp::ShuffleDown:
    j = self + by;
    valid = j <= most;
    break;
  case WarpOp::ShuffleButterfly:
    j = self ^ by;
    valid = j <= most;
    break;
  default:
    j = least | (by & static_cast<std::int32_t>(~segment & 31u));
    valid = j <= most;
    break;
  }
  return {static_cast<std::uint32_t>(valid ? j : self), valid};
}

void finishShuffle(Warp &warp, const Op &op, std::uint32_t mask) {
  auto *d = warp.row<std::uint32_t>(op.slot[0]);
  for (std::uint32_t rest = mask; rest; rest &= rest - 1) {
    auto i = static_cast<std::uint32_t>(std::countr_zero(rest));
    Source from = shuffleSource(kindOf(op), i, warp.sync.first[i], warp.sync.second[i]);
    // A source that takes no part gives an unspecified value; this one is always the same.
    d[i] = static_cast<std::uint32_t>(warp.sync.value[from.lane]);
    setPredicate(warp, op.slot[1], i, from.valid);
  }
}

std::uint32_t truthOf(const Warp &warp, std::uint32_t members) {
  std::uint32_t truth = 0;
  for (std::uint32_t rest = members; rest; rest &= rest - 1) {
    int i = std::countr_zero(rest);
    truth |= static_cast<std::uint32_t>(warp.sync.value[i] & 1u) << i;
  }
  return truth;
}

void finishVote(Warp &warp, const Op &op, std::uint32_t mask, std::uint32_t members) {
  std::uint32_t truth = truthOf(warp, members);
  if (kindOf(op) == WarpOp::VoteBallot) {
    auto *d = warp.row<std::uint32_t>(op.slot[0]);
    for (std::uint32_t rest = mask; rest; rest &= rest - 1)
      d[std::countr_zero(rest)] = truth;
    return;
  }
  bool all = truth == members, any = truth != 0;
  bool outcome = kindOf(op) == WarpOp::VoteAll   ? all
                 : kindOf(op) == WarpOp::VoteAny ? any
                                                 : all || !any;
  for (std::uint32_t rest = mask; rest; rest &= rest - 1)
    setPredicate(warp, op.slot[1], static_cast<std::uint32_t>(std::countr_zero(rest)), outcome);
}

void finishMatch(Warp &warp, const Op &op, std::uint32_t mask, std::uint32_t members) {
  bool matchesAll = kindOf(op) == WarpOp::MatchAll32 || kindOf(op) == WarpOp::MatchAll64;
  auto *d = warp.row<std::uint32_t>(op.slot[0]);
  for (std::uint32_t rest = mask; rest; rest &= rest - 1) {
    auto i = static_cast<std::uint32_t>(std::countr_zero(rest));
    std::uint32_t same = 0;
    for (std::uint32_t others = members; others; others &= others - 1) {
      int j = std::countr_zero(others);
      same |= static_cast<std::uint32_t>(warp.sync.value[j] == warp.sync.value[i]) << j;
    }
    bool all = same == members;
    d[i] = matchesAll ? (all ? members : 0) : same;
    setPredicate(warp, op.slot[1], i, all);
  }
}

std::uint32_t reduce(WarpOp kind, std::uint32_t a, std::uint32_t b) {
  switch (kind) {
  case WarpOp::ReduceAddU32:
    return a + b;
  case WarpOp::ReduceMinU32:
    return std::min(a, b);
  case WarpOp::ReduceMaxU32:
    return std::max(a, b);
  case WarpOp::ReduceMinS32:
    return static_cast<std::int32_t>(a) < static_cast<std::int32_t>(b) ? a : b;
  case WarpOp::ReduceMaxS32:
    return static_cast<std::int32_t>(a) > static_cast<std::int32_t>(b) ? a : b;
  case WarpOp::ReduceAnd:
    return a & b;
  case WarpOp::ReduceOr:
    return a | b;
  default:
    return a ^ b;
  }
}

enum ReduceFlags : std::uint8_t { ReduceMagnitude = 2, ReduceNan = 4 };

/// Like min and max of f32: a NaN gives way to a number, or with .NaN wins.
std::uint32_t reduceFloat(WarpOp kind, std::uint8_t flags, std::uint32_t a, std::uint32_t b) {
  auto isNan = [](std::uint32_t bits) { return (bits & 0x7fffffffu) > 0x7f800000u; };
  if (isNan(a) || isNan(b))
    return (flags & ReduceNan) || (isNan(a) && isNan(b)) ? 0x7fffffffu : isNan(a) ? b : a;
  // As integers that order like the floats, zeros too.
  auto ordered = [](std::uint32_t bits) { return bits >> 31 ? ~bits : bits | 0x80000000u; };
  return (ordered(a) < ordered(b)) == (kind == WarpOp::ReduceMinF32) ? a : b;
}

void finishReduce(Warp &warp, const Op &op, std::uint32_t mask, std::uint32_t members) {
  WarpOp kind = kindOf(op);
  bool isFloating = kind == WarpOp::ReduceMinF32 || kind == WarpOp::ReduceMaxF32;
  auto valueOf = [&](std::uint32_t lanes) {
    auto value = static_cast<std::uint32_t>(warp.sync.value[std::countr_zero(lanes)]);
    return isFloating && (op.flags & ReduceMagnitude) ? value & 0x7fffffffu : value;
  };
  std::uint32_t result = valueOf(members);
  for (std::uint32_t rest = members & (members - 1); rest; rest &= rest - 1)
    result = isFloating ? reduceFloat(kind, op.flags, result, valueOf(rest))
                        : reduce(kind, result, valueOf(rest));
  auto *d = warp.row<std::uint32_t>(op.slot[0]);
  for (; mask; mask &= mask - 1)
    d[std::countr_zero(mask)] = result;
}

void finishElect(Warp &warp, const Op &op, std::uint32_t mask, std::uint32_t members) {
  auto leader = static_cast<std::uint32_t>(std::countr_zero(members));
  for (; mask; mask &= mask - 1) {
    auto i = static_cast<std::uint32_t>(std::countr_zero(mask));
    if (op.slot[0] != noSlot)
      warp.row<std::uint32_t>(op.slot[0])[i] = leader;
    setPredicate(warp, op.slot[1], i, i == leader);
  }
}

/// `mask`: the lanes that came by this op; `members`: all that take part.
void finish(Warp &warp, const Op &op, std::uint32_t mask, std::uint32_t members) {
  WarpOp kind = kindOf(op);
  if (kind <= WarpOp::ShuffleIndex)
    finishShuffle(warp, op, mask);
  else if (kind <= WarpOp::VoteBallot)
    finishVote(warp, op, mask, members);
  else if (kind <= WarpOp::MatchAll64)
    finishMatch(warp, op, mask, members);
  else if (kind <= WarpOp::ReduceMaxF32)
    finishReduce(warp, op, mask, members);
  else if (kind == WarpOp::Elect)
    finishElect(warp, op, mask, members);
}

std::uint32_t sameMembers(Warp &warp, const Op &op, std::uint32_t mask, std::uint32_t &members) {
  const auto *row = warp.row<std::uint32_t>(op.slot[5]);
  members = row[std::countr_zero(mask)];
  std::uint32_t same = 0;
  for (std::uint32_t rest = mask; rest; rest &= rest - 1) {
    int i = std::countr_zero(rest);
    same |= static_cast<std::uint32_t>(row[i] == members) << i;
  }
  return same;
}

Status wait(Warp &warp, const Op &op, std::uint32_t mask, std::uint32_t members) {
  bring(warp, op, mask);
  Group waiting = warp.group();
  waiting.mask = mask;
  waiting.state = GroupState::SyncWait;
  waiting.memberMask = members;
  waiting.syncClass = op.extra;
  return replaceLanes(warp, mask, waiting);
}

Status syncOp(Warp &warp, const Op &op, std::uint32_t mask) {
  std::uint32_t members = 0;
  std::uint32_t same = sameMembers(warp, op, mask, members);
  if (same == mask && (members & warp.live) == mask) {
    bring(warp, op, mask);
    finish(warp, op, mask, mask);
    return Status::Next;
  }
  for (std::uint32_t rest = mask; rest;) {
    same = sameMembers(warp, op, rest, members);
    if (std::uint32_t strangers = same & ~members)
      return raise(
          warp, op, static_cast<std::uint32_t>(std::countr_zero(strangers)),
          FaultKind::BarrierMisuse,
          fmt::format("barrier misuse: the member mask {:#x} does not name the thread", members));
    wait(warp, op, same, members);
    rest &= ~same;
  }
  recheckSync(warp);
  return Status::Reschedule;
}

/// Before an operation of a whole warp. Lanes that have exited are for that operation to miss.
Status wholeWarp(Warp &warp, const Op &op, std::uint32_t mask) {
  if (mask == warp.live)
    return Status::Next;
  wait(warp, op, mask, fullMask);
  recheckSync(warp);
  return Status::Reschedule;
}

/// All lanes that wait at the first's place go on as one group.
void joinWholeWarp(Warp &warp, Group &first) {
  for (Group &each : warp.groups)
    if (&each != &first && each.mask && each.joins(first)) {
      first.mask |= each.mask;
      each.mask = 0;
    }
  first.state = GroupState::Ready;
  first.memberMask = first.syncClass = 0;
  ++first.pc;
}

Status activeMask(Warp &warp, const Op &op, std::uint32_t mask) {
  auto *d = warp.row<std::uint32_t>(op.slot[0]);
  for (std::uint32_t rest = mask; rest; rest &= rest - 1)
    d[std::countr_zero(rest)] = mask;
  return Status::Next;
}

} // namespace

void recheckSync(Warp &warp) {
  for (std::size_t i = 0; i < warp.groups.size(); ++i) {
    Group &first = warp.groups[i];
    if (first.state != GroupState::SyncWait || !first.mask)
      continue;
    auto isWith = [&](const Group &each) {
      return each.mask && each.state == GroupState::SyncWait && each.syncClass == first.syncClass &&
             each.memberMask == first.memberMask;
    };
    std::uint32_t here = 0;
    for (const Group &each : warp.groups)
      if (isWith(each))
        here |= each.mask;
    if ((first.memberMask & warp.live) & ~here)
      continue;
    if (first.syncClass >> placeShift) {
      joinWholeWarp(warp, first);
      continue;
    }
    std::uint32_t members = first.memberMask, kind = first.syncClass;
    std::byte *frame = warp.base[FrameBase];
    for (Group &each : warp.groups)
      if (each.mask && each.state == GroupState::SyncWait && each.syncClass == kind &&
          each.memberMask == members) {
        warp.base[FrameBase] = warp.rows.data() + each.frame;
        finish(warp, warp.block->program->code[each.pc], each.mask, here);
        each.state = GroupState::Ready;
        each.memberMask = each.syncClass = 0;
        ++each.pc;
      }
    warp.base[FrameBase] = frame;
  }
}

namespace {

/// Only the `.sync` forms are here: since sm_70 there are no others.
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
