#include "cluster.h"

#include "handlers.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace tally::emulator {

Status moveLanes(Warp &warp, std::uint32_t mask, std::uint32_t pc) {
  Group &group = warp.group();
  if (mask == group.mask) {
    group.pc = pc;
    return Status::Jump;
  }
  splitLanes(warp, mask, pc);
  return Status::Reschedule;
}

void splitLanes(Warp &warp, std::uint32_t mask, std::uint32_t pc) {
  Group added = warp.group();
  warp.group().mask &= ~mask;
  added.mask = mask;
  added.pc = pc;
  warp.groups.push_back(added);
}

Status replaceLanes(Warp &warp, std::uint32_t mask, const Group &group) {
  if (mask == warp.group().mask) {
    warp.group() = group;
    return Status::Reschedule;
  }
  warp.group().mask &= ~mask;
  warp.groups.push_back(group);
  return Status::Reschedule;
}

Status retireLanes(Warp &warp, std::uint32_t mask) {
  warp.group().mask &= ~mask;
  warp.live &= ~mask;
  if (warp.live == 0)
    --warp.block->liveWarps;
  recheckSync(warp);
  if (!recheckAligned(warp))
    return Status::Fault;
  recheckBarriers(*warp.block);
  recheckClusterBarrier(*warp.block->cluster);
  return warp.block->fault ? Status::Fault : Status::Reschedule;
}

namespace {

// A spinning path yields after this many steps, so that the awaited event can happen.
constexpr std::uint32_t starvedAfter = 1u << 12;
constexpr std::uint32_t starvedSlice = 1u << 9;

enum class RunEnd : std::uint8_t { Yielded, Faulted };

/// Runs groups[index] until it blocks, reaches `limit`, or has used up `budget`, which it reduces.
RunEnd runGroup(Warp &warp, std::uint32_t index, std::uint32_t limit, std::uint32_t &budget) {
  warp.current = index;
  Block &block = *warp.block;
  const Op *code = block.program->code.data();
  std::uint32_t pc = warp.groups[index].pc, mask = warp.groups[index].mask;
  warp.base[FrameBase] = warp.rows.data() + warp.groups[index].frame;
  std::uint64_t executed = 0;
  std::uint32_t left = budget;
  Status status = Status::Next;
  while (true) {
    const Op &op = code[pc];
    std::uint32_t active = mask;
    if (op.guard != noSlot) {
      std::uint32_t predicate = warp.predicate(op.guard);
      active &= op.guardNegated ? ~predicate : predicate;
    }
    --left;
    if (active) {
      executed += static_cast<std::uint32_t>(std::popcount(active));
      warp.groups[index].pc = pc;
      status = op.handler(warp, op, active);
      if (status == Status::Next) {
        ++pc;
      } else if (status == Status::Jump) {
        pc = warp.groups[index].pc;
      } else {
        // Lanes that the guard kept from the op continue behind it.
        Group &rest = warp.groups[index];
        if (rest.mask && rest.pc == pc && (rest.mask & active) == 0)
          ++rest.pc;
        break;
      }
    } else {
      ++pc;
    }
    if (pc >= limit || left == 0) {
      warp.groups[index].pc = pc;
      break;
    }
  }
  block.executed += executed;
  block.steps += budget - left;
  budget = left;
  return status == Status::Fault ? RunEnd::Faulted : RunEnd::Yielded;
}

/// Joins groups at the same place, and drops empty groups.
void mergeGroups(Warp &warp) {
  auto &groups = warp.groups;
  for (std::size_t i = 0; i < groups.size(); ++i)
    for (std::size_t j = i + 1; j < groups.size(); ++j)
      if (groups[i].mask && groups[j].mask && groups[i].state == GroupState::Ready &&
          groups[i].joins(groups[j])) {
        groups[i].mask |= groups[j].mask;
        groups[j].mask = 0;
      }
  std::erase_if(groups, [](const Group &each) { return each.mask == 0; });
}

bool hasReady(const Warp &warp) {
  for (const Group &each : warp.groups)
    if (each.mask && each.state == GroupState::Ready)
      return true;
  return false;
}

struct Pick {
  std::uint32_t index = ~0u, limit = ~0u;
};

/// Returns the ready group of lowest pc; it runs until it meets the next group, so that they merge.
Pick lowest(const Warp &warp) {
  Pick pick;
  for (std::uint32_t i = 0; i < warp.groups.size(); ++i) {
    const Group &each = warp.groups[i];
    if (each.state != GroupState::Ready)
      continue;
    if (pick.index == ~0u || each.pc < warp.groups[pick.index].pc) {
      if (pick.index != ~0u)
        pick.limit = std::min(pick.limit, warp.groups[pick.index].pc);
      pick.index = i;
    } else {
      pick.limit = std::min(pick.limit, each.pc);
    }
  }
  return pick;
}

std::uint32_t readyCount(const Warp &warp) {
  return static_cast<std::uint32_t>(
      std::count_if(warp.groups.begin(), warp.groups.end(),
                    [](const Group &each) { return each.state == GroupState::Ready; }));
}

std::uint32_t nthReady(const Warp &warp, std::uint32_t n) {
  for (std::uint32_t i = 0; i < warp.groups.size(); ++i)
    if (warp.groups[i].state == GroupState::Ready && n-- == 0)
      return i;
  return 0;
}

/// Runs one warp in the plain order, as far as it goes or for a slice.
RunEnd runPlain(Warp &warp) {
  std::uint32_t budget = warp.block->environment.warpSlice, sinceRotation = 0, rotation = 0;
  while (budget) {
    mergeGroups(warp);
    Pick pick = lowest(warp);
    if (pick.index == ~0u)
      break;
    std::uint32_t ready = readyCount(warp), before = budget;
    RunEnd end;
    if (ready > 1 && sinceRotation > starvedAfter) {
      std::uint32_t slice = std::min(budget, starvedSlice);
      std::uint32_t left = slice;
      end = runGroup(warp, nthReady(warp, ++rotation % ready), ~0u, left);
      budget -= slice - left;
      sinceRotation = 0;
    } else {
      std::uint32_t slice = ready > 1 ? std::min(budget, starvedAfter + 1) : budget;
      std::uint32_t left = slice;
      end = runGroup(warp, pick.index, pick.limit, left);
      budget -= slice - left;
      sinceRotation = ready > 1 ? sinceRotation + (before - budget) : 0;
    }
    if (end == RunEnd::Faulted)
      return end;
    if (warp.block->napped) {
      if (ready == 1)
        break;
      sinceRotation = starvedAfter + 1;
    }
  }
  return RunEnd::Yielded;
}

RunEnd runRandom(Warp &warp, Chooser &chooser) {
  mergeGroups(warp);
  std::uint32_t ready = readyCount(warp);
  std::uint32_t quantum = 1 + chooser.below(chooser.below(8) == 0 ? 1024 : 48);
  return runGroup(warp, nthReady(warp, chooser.below(ready)), ~0u, quantum);
}

const char *describe(GroupState state) {
  switch (state) {
  case GroupState::Ready:
    return "ready";
  case GroupState::AlignedWait:
    return "at an aligned barrier without the rest of its warp";
  case GroupState::BarrierWait:
    return "waiting at a barrier";
  case GroupState::SyncWait:
    return "waiting for the other lanes of a warp operation";
  case GroupState::ClusterWait:
    return "waiting at the barrier of the cluster";
  }
  return "";
}

/// No warp in the block can run: names two waiting warps, at two places if possible.
void raiseStuck(Block &block) {
  Warp *first = nullptr, *second = nullptr;
  std::uint32_t firstGroup = 0, secondGroup = 0;
  auto isWorse = [](GroupState state) { return state == GroupState::AlignedWait; };
  for (Warp &warp : block.warps)
    for (std::uint32_t i = 0; i < warp.groups.size(); ++i) {
      const Group &each = warp.groups[i];
      if (!first || (isWorse(each.state) && !isWorse(first->groups[firstGroup].state))) {
        second = first, secondGroup = firstGroup;
        first = &warp, firstGroup = i;
      } else if (!second && each.pc != first->groups[firstGroup].pc) {
        second = &warp, secondGroup = i;
      }
    }
  if (!first)
    return;
  const Group &stuck = first->groups[firstGroup];
  std::string what = isWorse(stuck.state) ? "barrier misuse: " : "deadlock: ";
  what += describe(stuck.state);
  if (second) {
    const Group &other = second->groups[secondGroup];
    const Op &op = block.program->code[other.pc];
    what += fmt::format("; others of the block are {} (line {}: {})", describe(other.state),
                        block.program->lineOf(op), block.program->textOf(op));
  }
  first->current = firstGroup;
  raise(*first, block.program->code[stuck.pc],
        static_cast<std::uint32_t>(std::countr_zero(stuck.mask)),
        isWorse(stuck.state) ? FaultKind::BarrierMisuse : FaultKind::Deadlock, what);
}

Warp *pickWarp(Block &block, Chooser &chooser) {
  auto count = static_cast<std::uint32_t>(block.warps.size());
  std::uint32_t start = chooser.random() ? chooser.below(count) : block.nextWarp;
  for (std::uint32_t i = 0; i < count; ++i) {
    Warp &each = block.warps[(start + i) % count];
    if (hasReady(each)) {
      block.nextWarp = (each.index + 1) % count;
      return &each;
    }
  }
  return nullptr;
}

} // namespace

Status raise(Warp &warp, const Op &op, std::uint32_t lane, FaultKind kind, std::string what) {
  Block &block = *warp.block;
  if (block.fault)
    return Status::Fault;
  std::uint32_t thread = warp.index * warpSize + lane;
  const Dim3 &extents = block.launch->shape.block;
  Fault fault{kind, {}, block.program->lineOf(op), block.id, {}};
  fault.thread = {thread % extents.x, thread / extents.x % extents.y,
                  thread / extents.x / extents.y};
  fault.message = fmt::format(
      "{}, at line {} of {} by block ({}, {}, {}), thread ({}, {}, {}): {}", what, fault.line,
      block.program->functions[warp.group().function].name, block.id.x, block.id.y, block.id.z,
      fault.thread.x, fault.thread.y, fault.thread.z, block.program->textOf(op));
  block.fault = std::move(fault);
  return Status::Fault;
}

namespace {

/// Whether some lanes wait for other blocks of the cluster, so that the block itself is not stuck.
bool waitsForCluster(const Block &block) {
  for (const Warp &warp : block.warps)
    for (const Group &group : warp.groups)
      if (group.mask && group.state == GroupState::ClusterWait)
        return true;
  return false;
}

bool isFinished(const Cluster &cluster) {
  return std::ranges::all_of(cluster.blocks,
                             [](const auto &block) { return block->liveWarps == 0; });
}

/// No warp in the cluster can run.
void raiseStuck(Cluster &cluster) {
  for (auto &block : cluster.blocks)
    if (block->liveWarps != 0)
      return raiseStuck(*block);
}

} // namespace

BlockState advance(Cluster &cluster, Chooser &chooser) {
  if (isFinished(cluster))
    return BlockState::Finished;
  auto count = static_cast<std::uint32_t>(cluster.blocks.size());
  std::uint32_t start = chooser.random() && count > 1 ? chooser.below(count) : cluster.next;
  for (std::uint32_t i = 0; i < count; ++i) {
    std::uint32_t index = (start + i) % count;
    Block &block = *cluster.blocks[index];
    if (block.liveWarps == 0)
      continue;
    Warp *warp = pickWarp(block, chooser);
    if (!warp && waitsForCluster(block))
      continue;
    if (!warp) {
      raiseStuck(block);
      return BlockState::Faulted;
    }
    cluster.next = (index + 1) % count;
    block.napped = false;
    RunEnd end = chooser.random() ? runRandom(*warp, chooser) : runPlain(*warp);
    if (end == RunEnd::Faulted || block.fault)
      return BlockState::Faulted;
    return isFinished(cluster) ? BlockState::Finished : BlockState::Running;
  }
  raiseStuck(cluster);
  return BlockState::Faulted;
}

Status unimplemented(Warp &warp, const Op &op, std::uint32_t mask) {
  const std::string &why = warp.block->program->unimplemented[op.extra];
  return raise(warp, op, static_cast<std::uint32_t>(std::countr_zero(mask)),
               FaultKind::Unimplemented,
               why.empty() ? "the emulator lacks this instruction"
                           : fmt::format("the emulator lacks this form ({})", why));
}

} // namespace tally::emulator
