// Clusters and their instructions: barrier.cluster (PTX ISA 9.7.13.3), mapa and getctarank
// (9.7.9.23, 9.7.9.24).
//
// The barrier has phases. A phase is over when all threads of all blocks that have not exited have
// arrived. A thread that has arrived may wait for it at any later time, and must wait before it
// arrives again.
#include "cluster.h"

#include "access.h"
#include "decoder.h"
#include "handlers.h"

#include <fmt/format.h>

#include <bit>

namespace tally::emulator {

using ptx::Instruction;

Cluster::Cluster(const Launch &launch) {
  auto count = static_cast<std::uint32_t>(launch.cluster.count());
  for (std::uint32_t rank = 0; rank < count; ++rank) {
    blocks.push_back(std::make_unique<Block>(launch));
    blocks.back()->cluster = this;
    blocks.back()->rank = rank;
  }
}

void Cluster::reset(std::uint64_t linearId, std::uint32_t virtualSm) {
  const Dim3 &grid = blocks[0]->launch->shape.grid, &extents = blocks[0]->launch->cluster;
  std::uint64_t columns = grid.x / extents.x, rows = grid.y / extents.y;
  for (auto &block : blocks) {
    std::uint32_t rank = block->rank;
    block->virtualSm = virtualSm;
    block->reset({static_cast<std::uint32_t>(linearId % columns) * extents.x + rank % extents.x,
                  static_cast<std::uint32_t>(linearId / columns % rows) * extents.y +
                      rank / extents.x % extents.y,
                  static_cast<std::uint32_t>(linearId / columns / rows) * extents.z +
                      rank / extents.x / extents.y});
  }
  next = 0;
}

std::uint64_t Cluster::steps() const {
  std::uint64_t sum = 0;
  for (const auto &block : blocks)
    sum += block->steps;
  return sum;
}

bool Cluster::napped() const { return blocks[(next + blocks.size() - 1) % blocks.size()]->napped; }

std::uint64_t Cluster::executed() const {
  std::uint64_t sum = 0;
  for (const auto &block : blocks)
    sum += block->executed;
  return sum;
}

const std::optional<Fault> &Cluster::fault() const {
  for (const auto &block : blocks)
    if (block->fault)
      return block->fault;
  return blocks[0]->fault;
}

// The barrier ------------------------------------------------------------------------------------

namespace {

enum ClusterBarrierFlags : std::uint8_t { Aligned = 1, ArriveOnly = 2 };

bool isComplete(const Cluster &cluster) {
  bool anyone = false;
  for (const auto &block : cluster.blocks)
    for (const Warp &warp : block->warps) {
      anyone |= warp.clusterArrived != 0;
      if (warp.live & ~warp.clusterArrived)
        return false;
    }
  return anyone;
}

void release(Cluster &cluster) {
  for (auto &block : cluster.blocks)
    for (Warp &warp : block->warps) {
      warp.clusterPassed |= warp.clusterArrived & warp.live;
      warp.clusterArrived = 0;
      for (Group &group : warp.groups)
        if (group.mask && group.state == GroupState::ClusterWait) {
          warp.clusterPassed &= ~group.mask;
          group.state = GroupState::Ready;
          ++group.pc;
        }
    }
}

Status misuse(Warp &warp, const Op &op, std::uint32_t lanes, std::string what) {
  return raise(warp, op, static_cast<std::uint32_t>(std::countr_zero(lanes)),
               FaultKind::BarrierMisuse, "barrier misuse: " + std::move(what));
}

Status waitForCluster(Warp &warp, const Op &op, Group &group) {
  std::uint32_t arrived = group.mask & warp.clusterArrived;
  std::uint32_t passed = group.mask & warp.clusterPassed;
  if (std::uint32_t stranger = group.mask & ~(arrived | passed))
    return misuse(warp, op, stranger, "a wait for the cluster without an arrive");
  warp.clusterPassed &= ~passed;
  if (!arrived) {
    ++group.pc;
    return Status::Reschedule;
  }
  if (passed) {
    Group through = group;
    through.mask = passed;
    ++through.pc;
    group.mask = arrived;
    group.state = GroupState::ClusterWait;
    warp.groups.push_back(through);
    return Status::Reschedule;
  }
  group.state = GroupState::ClusterWait;
  return Status::Reschedule;
}

} // namespace

Status clusterBarrierGroup(Warp &warp, const Op &op, std::uint32_t groupIndex) {
  Group &group = warp.groups[groupIndex];
  group.state = GroupState::Ready;
  if (!(op.flags & ArriveOnly))
    return waitForCluster(warp, op, group);
  if (std::uint32_t again = group.mask & (warp.clusterArrived | warp.clusterPassed))
    return misuse(warp, op, again, "a second arrive at the cluster without a wait");
  warp.clusterArrived |= group.mask;
  ++group.pc;
  recheckClusterBarrier(*warp.block->cluster);
  return Status::Reschedule;
}

Status clusterBarrier(Warp &warp, const Op &op, std::uint32_t mask) {
  if (mask != warp.group().mask) {
    Group part = warp.group();
    warp.group().mask &= ~mask;
    ++warp.group().pc;
    part.mask = mask;
    warp.groups.push_back(part);
    warp.current = static_cast<std::uint32_t>(warp.groups.size() - 1);
  }
  if ((op.flags & Aligned) && mask != warp.live) {
    warp.group().state = GroupState::AlignedWait;
    return recheckAligned(warp) ? Status::Reschedule : Status::Fault;
  }
  return clusterBarrierGroup(warp, op, warp.current);
}

void recheckClusterBarrier(Cluster &cluster) {
  if (isComplete(cluster))
    release(cluster);
}

// Addresses --------------------------------------------------------------------------------------

namespace {

/// Returns the offset in the shared window, or nothing; `.shared::cluster` addresses are such
/// offsets.
std::optional<std::uint64_t> windowOffset(const Op &op, std::uint64_t address) {
  if (op.space == Space::SharedCluster)
    return address;
  if (!liesInWindow(address, sharedWindow))
    return std::nullopt;
  return address - sharedWindow;
}

/// Slot 0: the address of the object at slot 1, in the block of rank slot 2.
template <class T> Status mapAddress(Warp &warp, const Op &op, std::uint32_t mask) {
  T *d = warp.row<T>(op.slot[0]);
  const T *a = warp.row<T>(op.slot[1]);
  const auto *rank = warp.row<std::uint32_t>(op.slot[2]);
  std::size_t count = warp.block->cluster->blocks.size();
  for (; mask; mask &= mask - 1) {
    auto lane = static_cast<std::uint32_t>(std::countr_zero(mask));
    std::optional<std::uint64_t> offset = windowOffset(op, a[lane]);
    if (!offset)
      return raise(warp, op, lane, FaultKind::OutOfBounds,
                   fmt::format("{:#x} is no shared address", std::uint64_t{a[lane]}));
    if (rank[lane] >= count)
      return raise(warp, op, lane, FaultKind::OutOfBounds,
                   fmt::format("rank {} in a cluster of {} blocks", rank[lane], count));
    std::uint64_t window = a[lane] - *offset;
    d[lane] = static_cast<T>(window | (std::uint64_t{rank[lane]} + 1) << clusterRankShift |
                             (*offset & sharedOffsetMask));
  }
  return Status::Next;
}

/// Slot 0: the rank of the block that holds the address in slot 1.
template <class T> Status rankOfAddress(Warp &warp, const Op &op, std::uint32_t mask) {
  auto *d = warp.row<std::uint32_t>(op.slot[0]);
  const T *a = warp.row<T>(op.slot[1]);
  for (; mask; mask &= mask - 1) {
    auto lane = static_cast<std::uint32_t>(std::countr_zero(mask));
    std::optional<std::uint64_t> offset = windowOffset(op, a[lane]);
    if (!offset)
      return raise(warp, op, lane, FaultKind::OutOfBounds,
                   fmt::format("{:#x} is no shared address", std::uint64_t{a[lane]}));
    std::uint64_t named = *offset >> clusterRankShift;
    d[lane] = named == 0 ? warp.block->rank : static_cast<std::uint32_t>(named - 1);
  }
  return Status::Next;
}

bool decodeAddress(FunctionDecoder &decoder, const Instruction &instruction) {
  bool maps = instruction.opcode == "mapa";
  if (instruction.operands.size() != (maps ? 3u : 2u))
    return false;
  Type type = lastType(instruction);
  Op op;
  op.space = spaceOf(instruction);
  bool wide = sizeOf(type) == 8;
  if (!wide && (sizeOf(type) != 4 || op.space != Space::SharedCluster))
    return false; // generic addresses are 64 bits wide here
  op.slot[1] = decoder.source(instruction.operands[1], type);
  if (maps) {
    op.handler = wide ? mapAddress<std::uint64_t> : mapAddress<std::uint32_t>;
    op.slot[2] = decoder.source(instruction.operands[2], Type::U32);
    op.slot[0] = decoder.destination(instruction.operands[0], type);
  } else {
    op.handler = wide ? rankOfAddress<std::uint64_t> : rankOfAddress<std::uint32_t>;
    op.slot[0] = decoder.destination(instruction.operands[0], Type::U32);
  }
  if (!decoder.failed())
    decoder.emit(op);
  return true;
}

} // namespace

bool decodeCluster(FunctionDecoder &decoder, const Instruction &instruction) {
  if (instruction.opcode == "mapa" || instruction.opcode == "getctarank")
    return decodeAddress(decoder, instruction);
  if (instruction.opcode != "barrier" || !instruction.has("cluster"))
    return false;
  bool arrives = instruction.has("arrive");
  if ((!arrives && !instruction.has("wait")) || !instruction.operands.empty())
    return false;
  Op op;
  op.handler = clusterBarrier;
  op.flags = static_cast<std::uint8_t>((arrives ? ArriveOnly : 0) |
                                       (instruction.has("aligned") ? Aligned : 0));
  decoder.emit(op);
  return true;
}

} // namespace tally::emulator
