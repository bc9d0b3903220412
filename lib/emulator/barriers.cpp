// The block's barriers. PTX ISA 9.7.13.1.
//
// A barrier without a thread count waits for all threads of the block that have not exited. With a
// count it counts warps, as the ISA says: a warp whose live lanes have all arrived counts for 32
// threads.
#include "cluster.h"

#include "decoder.h"
#include "handlers.h"

#include <fmt/format.h>

#include <bit>

namespace tally::emulator {

namespace {

using ptx::Instruction;

// Op::slot: 0 destination, 1 the barrier's id, 2 the thread count or noSlot, 3 the predicate.
enum BarrierFlags : std::uint8_t {
  Aligned = 1,
  ArriveOnly = 2,
  NegatedPredicate = 4,
  ReducePopc = 8,
  ReduceAnd = 16,
  ReduceOr = 32,
  Reduces = ReducePopc | ReduceAnd | ReduceOr
};

std::uint32_t arrivedThreads(const Block &block, const Barrier &barrier) {
  std::uint32_t total = barrier.extra;
  for (const Warp &warp : block.warps) {
    std::uint32_t arrived = barrier.arrived[warp.index];
    if (arrived)
      total += (warp.live & ~arrived) == 0 ? warpSize
                                           : static_cast<std::uint32_t>(std::popcount(arrived));
  }
  return total;
}

bool allHere(const Block &block, const Barrier &barrier) {
  for (const Warp &warp : block.warps)
    if (warp.live & ~barrier.arrived[warp.index])
      return false;
  return true;
}

void storeReduction(Warp &warp, const Op &op, const Barrier &barrier, const Group &group) {
  // The group may be in another frame than the running group.
  std::byte *frame = warp.base[FrameBase];
  warp.base[FrameBase] = warp.rows.data() + group.frame;
  if (op.flags & ReducePopc) {
    auto *d = warp.row<std::uint32_t>(op.slot[0]);
    for (std::uint32_t rest = group.mask; rest; rest &= rest - 1)
      d[std::countr_zero(rest)] = barrier.trueCount;
  } else if (op.slot[0] != noSlot) {
    bool outcome =
        op.flags & ReduceAnd ? barrier.trueCount == barrier.count : barrier.trueCount > 0;
    std::uint32_t &d = warp.predicate(op.slot[0]);
    d = (d & ~group.mask) | (outcome ? group.mask : 0);
  }
  warp.base[FrameBase] = frame;
}

void release(Block &block, std::uint32_t id) {
  Barrier &barrier = block.barriers[id];
  for (Warp &warp : block.warps)
    for (Group &group : warp.groups)
      if (group.mask && group.state == GroupState::BarrierWait && group.barrier == id) {
        const Op &op = block.program->code[group.pc];
        if (op.flags & Reduces)
          storeReduction(warp, op, barrier, group);
        group.state = GroupState::Ready;
        group.barrier = 0;
        ++group.pc;
      }
  barrier.active = false;
  barrier.expected = barrier.extra = barrier.count = barrier.trueCount = 0;
  std::fill(barrier.arrived.begin(), barrier.arrived.end(), 0u);
}

bool isComplete(const Block &block, const Barrier &barrier) {
  if (!barrier.active)
    return false;
  return barrier.expected ? arrivedThreads(block, barrier) == barrier.expected
                          : allHere(block, barrier);
}

/// The barrier's id and thread count for a lane.
struct Request {
  std::uint32_t id = 0, count = 0;
};
Request requestOf(Warp &warp, const Op &op, std::uint32_t lane) {
  return {warp.row<std::uint32_t>(op.slot[1])[lane],
          op.slot[2] == noSlot ? 0 : warp.row<std::uint32_t>(op.slot[2])[lane]};
}

Status misuse(Warp &warp, const Op &op, std::uint32_t lane, const std::string &what) {
  return raise(warp, op, lane, FaultKind::BarrierMisuse, "barrier misuse: " + what);
}

std::optional<std::string> complaint(const Block &block, const Op &op, const Request &request) {
  if (request.id >= block.barriers.size())
    return fmt::format("barrier {} of 16", request.id);
  if (op.slot[2] != noSlot && (request.count == 0 || request.count % warpSize))
    return fmt::format("a count of {} threads is no multiple of the warp size", request.count);
  if (request.count > block.warps.size() * warpSize)
    return fmt::format("a count of {} threads in a block of {}", request.count, block.threads);
  const Barrier &barrier = block.barriers[request.id];
  if (barrier.active && barrier.expected != request.count)
    return fmt::format("barrier {} expects {} threads here and {} where others arrived", request.id,
                       request.count, barrier.expected);
  if (barrier.active && barrier.reduction != (op.flags & Reduces))
    return fmt::format("barrier {} reduces in another way where others arrived, or not at all",
                       request.id);
  return std::nullopt;
}

/// The lanes arrive, as a separate group of the running warp. Afterwards the group waits, or has
/// passed.
Status arrive(Warp &warp, const Op &op, Group &group, const Request &request) {
  Block &block = *warp.block;
  auto lane = static_cast<std::uint32_t>(std::countr_zero(group.mask));
  if (auto wrong = complaint(block, op, request))
    return misuse(warp, op, lane, *wrong);
  Barrier &barrier = block.barriers[request.id];
  barrier.active = true;
  barrier.expected = request.count;
  barrier.reduction = op.flags & Reduces;
  std::uint32_t &arrived = barrier.arrived[warp.index];
  if (std::uint32_t again = arrived & group.mask)
    barrier.extra +=
        op.flags & Aligned ? warpSize : static_cast<std::uint32_t>(std::popcount(again));
  arrived |= group.mask;
  if (op.flags & Reduces) {
    std::uint32_t predicate = warp.predicate(op.slot[3]);
    if (op.flags & NegatedPredicate)
      predicate = ~predicate;
    barrier.count += static_cast<std::uint32_t>(std::popcount(group.mask));
    barrier.trueCount += static_cast<std::uint32_t>(std::popcount(group.mask & predicate));
  }
  group.barrier = op.flags & ArriveOnly ? 0 : static_cast<std::uint8_t>(request.id);
  group.state = op.flags & ArriveOnly ? GroupState::Ready : GroupState::BarrierWait;
  if (op.flags & ArriveOnly)
    ++group.pc;
  if (barrier.expected && arrivedThreads(block, barrier) > barrier.expected)
    return misuse(warp, op, lane,
                  fmt::format("barrier {} expects {} threads and {} arrived", request.id,
                              barrier.expected, arrivedThreads(block, barrier)));
  if (isComplete(block, barrier))
    release(block, request.id);
  return Status::Reschedule;
}

/// Lets the group arrive at once if all its lanes name the same barrier, otherwise barrier by
/// barrier.
Status arriveByRequest(Warp &warp, const Op &op, std::uint32_t groupIndex) {
  std::uint32_t rest = warp.groups[groupIndex].mask;
  std::uint32_t pc = warp.groups[groupIndex].pc;
  while (rest) {
    auto lane = static_cast<std::uint32_t>(std::countr_zero(rest));
    Request request = requestOf(warp, op, lane);
    std::uint32_t same = 0;
    for (std::uint32_t i = 0; i < warpSize; ++i)
      if (rest >> i & 1u) {
        Request other = requestOf(warp, op, i);
        same |= static_cast<std::uint32_t>(other.id == request.id && other.count == request.count)
                << i;
      }
    rest &= ~same;
    if (rest && (op.flags & Aligned))
      return misuse(warp, op, lane, "lanes of one warp name different barriers or counts");
    if (rest) {
      Group part = warp.groups[groupIndex];
      part.mask = same;
      warp.groups[groupIndex].mask &= ~same;
      warp.groups.push_back(part);
      if (arrive(warp, op, warp.groups.back(), request) == Status::Fault)
        return Status::Fault;
      warp.groups[groupIndex].pc = pc;
    } else if (arrive(warp, op, warp.groups[groupIndex], request) == Status::Fault) {
      return Status::Fault;
    }
  }
  return Status::Reschedule;
}

/// An aligned barrier is for whole warps: its lanes wait here until the other lanes have come or
/// exited.
Status barrierOp(Warp &warp, const Op &op, std::uint32_t mask) {
  if (mask != warp.group().mask) {
    Group waiting = warp.group();
    warp.group().mask &= ~mask;
    ++warp.group().pc;
    waiting.mask = mask;
    warp.groups.push_back(waiting);
    warp.current = static_cast<std::uint32_t>(warp.groups.size() - 1);
  }
  if ((op.flags & Aligned) && mask != warp.live) {
    warp.group().state = GroupState::AlignedWait;
    return recheckAligned(warp) ? Status::Reschedule : Status::Fault;
  }
  return arriveByRequest(warp, op, warp.current);
}

} // namespace

void recheckBarriers(Block &block) {
  for (std::uint32_t id = 0; id < block.barriers.size(); ++id)
    if (isComplete(block, block.barriers[id]))
      release(block, id);
}

bool recheckAligned(Warp &warp) {
  for (std::uint32_t i = 0; i < warp.groups.size(); ++i) {
    if (warp.groups[i].state != GroupState::AlignedWait || !warp.groups[i].mask)
      continue;
    for (std::uint32_t j = i + 1; j < warp.groups.size(); ++j)
      if (warp.groups[j].mask && warp.groups[i].joins(warp.groups[j])) {
        warp.groups[i].mask |= warp.groups[j].mask;
        warp.groups[j].mask = 0;
      }
    if (warp.groups[i].mask != warp.live)
      continue;
    std::uint32_t running = warp.current;
    std::byte *frame = warp.base[FrameBase];
    warp.current = i;
    warp.base[FrameBase] = warp.rows.data() + warp.groups[i].frame;
    const Op &op = warp.block->program->code[warp.groups[i].pc];
    Status status = op.handler == clusterBarrier ? clusterBarrierGroup(warp, op, i)
                                                 : arriveByRequest(warp, op, i);
    warp.current = running;
    warp.base[FrameBase] = frame;
    return status != Status::Fault;
  }
  return true;
}

namespace {

bool decodeReduction(FunctionDecoder &decoder, const Instruction &instruction, Op &op) {
  const auto &operands = instruction.operands;
  if (operands.size() != 3 && operands.size() != 4)
    return false;
  bool negated = false;
  op.slot[1] = decoder.source(operands[1], Type::U32);
  if (operands.size() == 4)
    op.slot[2] = decoder.source(operands[2], Type::U32);
  op.slot[3] = decoder.predicateSource(operands.back(), negated);
  op.flags |= negated ? NegatedPredicate : 0;
  if (instruction.has("popc")) {
    op.flags |= ReducePopc;
    op.slot[0] = decoder.destination(operands[0], Type::U32);
  } else {
    op.flags |= instruction.has("and") ? ReduceAnd : ReduceOr;
    op.slot[0] = decoder.predicateDestination(operands[0]);
  }
  return true;
}

} // namespace

bool decodeBarrier(FunctionDecoder &decoder, const Instruction &instruction) {
  bool isBar = instruction.opcode == "bar";
  if ((!isBar && instruction.opcode != "barrier") || instruction.has("warp"))
    return false;
  if (instruction.has("cluster"))
    return false;
  const auto &operands = instruction.operands;
  Op op;
  op.handler = barrierOp;
  op.flags = isBar || instruction.has("aligned") ? Aligned : 0;
  if (instruction.has("red")) {
    if (!decodeReduction(decoder, instruction, op))
      return false;
  } else {
    if (operands.empty() || operands.size() > 2)
      return false;
    op.slot[1] = decoder.source(operands[0], Type::U32);
    if (operands.size() == 2)
      op.slot[2] = decoder.source(operands[1], Type::U32);
    if (instruction.has("arrive")) {
      op.flags |= ArriveOnly;
      if (operands.size() != 2)
        return decoder.fail("an arrive needs a thread count");
    }
  }
  if (!decoder.failed())
    decoder.emit(op);
  return true;
}

} // namespace tally::emulator
