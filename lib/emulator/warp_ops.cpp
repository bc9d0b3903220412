// Operations among the lanes of a warp. PTX ISA 9.7.9.6 (shfl), 9.7.13 (vote, match, activemask,
// redux, elect, bar.warp).
//
// A `.sync` operation waits for all live lanes that its member mask names. Lanes may arrive at
// different instructions of the same kind and mask, so each lane brings its operands in the warp's
// SyncBuffers, and takes its result when the last lane has come.
#include "warp_ops.h"

#include "warp_scheduler.h"

#include <fmt/format.h>

#include <bit>

namespace tally::emulator {

namespace {

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
    // A source lane that takes no part gives an unspecified value; here it is always the same
    // value.
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

/// Like min and max of f32: a number wins over a NaN; with .NaN the NaN wins.
std::uint32_t reduceFloat(WarpOp kind, std::uint8_t flags, std::uint32_t a, std::uint32_t b) {
  auto isNan = [](std::uint32_t bits) { return (bits & 0x7fffffffu) > 0x7f800000u; };
  if (isNan(a) || isNan(b))
    return (flags & ReduceNan) || (isNan(a) && isNan(b)) ? 0x7fffffffu : isNan(a) ? b : a;
  // Integers that have the order of the floats, zeros too.
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

/// `mask`: the lanes at this op; `members`: all participating lanes.
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

/// All lanes that wait at the place of `first` continue as one group.
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

} // namespace

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

Status wholeWarp(Warp &warp, const Op &op, std::uint32_t mask) {
  if (mask == warp.live)
    return Status::Next;
  wait(warp, op, mask, fullMask);
  recheckSync(warp);
  return Status::Reschedule;
}

Status activeMask(Warp &warp, const Op &op, std::uint32_t mask) {
  auto *d = warp.row<std::uint32_t>(op.slot[0]);
  for (std::uint32_t rest = mask; rest; rest &= rest - 1)
    d[std::countr_zero(rest)] = mask;
  return Status::Next;
}

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

} // namespace tally::emulator
