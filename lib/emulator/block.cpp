#include "warp_scheduler.h"

#include "handlers.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>

namespace tally::emulator {

namespace {

template <class T> void fillRow(Warp &warp, std::uint32_t row, T value) {
  T *lanes = warp.row<T>(specialSlot(row));
  for (std::uint32_t i = 0; i < warpSize; ++i)
    lanes[i] = value;
}

void fillThreadRows(Warp &warp, const Dim3 &extents) {
  for (std::uint32_t lane = 0; lane < warpSize; ++lane) {
    std::uint32_t thread = warp.index * warpSize + lane;
    warp.row<std::uint32_t>(specialSlot(TidX))[lane] = thread % extents.x;
    warp.row<std::uint32_t>(specialSlot(TidY))[lane] = thread / extents.x % extents.y;
    warp.row<std::uint32_t>(specialSlot(TidZ))[lane] = thread / extents.x / extents.y;
    warp.row<std::uint32_t>(specialSlot(LaneId))[lane] = lane;
    std::uint32_t own = 1u << lane;
    warp.row<std::uint32_t>(specialSlot(LanemaskEq))[lane] = own;
    warp.row<std::uint32_t>(specialSlot(LanemaskLt))[lane] = own - 1;
    warp.row<std::uint32_t>(specialSlot(LanemaskLe))[lane] = own | (own - 1);
    warp.row<std::uint32_t>(specialSlot(LanemaskGt))[lane] = ~(own | (own - 1));
    warp.row<std::uint32_t>(specialSlot(LanemaskGe))[lane] = ~(own - 1);
  }
}

void fillLaunchRows(Warp &warp, const Launch &launch, std::uint32_t warps,
                    std::uint32_t sharedBytes, std::uint32_t dynamicBase) {
  const LaunchShape &shape = launch.shape;
  fillRow(warp, NtidX, shape.block.x);
  fillRow(warp, NtidY, shape.block.y);
  fillRow(warp, NtidZ, shape.block.z);
  fillRow(warp, NctaidX, shape.grid.x);
  fillRow(warp, NctaidY, shape.grid.y);
  fillRow(warp, NctaidZ, shape.grid.z);
  fillRow(warp, WarpId, warp.index);
  fillRow(warp, NwarpId, warps);
  fillRow(warp, SmId, 0u);
  fillRow(warp, NsmId, launch.environment.virtualSmCount);
  fillRow(warp, DynamicSharedSize, shape.dynamicSharedBytes);
  fillRow(warp, TotalSharedSize, sharedBytes);
  fillRow(warp, DynamicSharedBase, dynamicBase);
  const Dim3 &cluster = launch.cluster;
  fillRow(warp, NclusterIdX, shape.grid.x / cluster.x);
  fillRow(warp, NclusterIdY, shape.grid.y / cluster.y);
  fillRow(warp, NclusterIdZ, shape.grid.z / cluster.z);
  fillRow(warp, ClusterNctaidX, cluster.x);
  fillRow(warp, ClusterNctaidY, cluster.y);
  fillRow(warp, ClusterNctaidZ, cluster.z);
  fillRow(warp, ClusterNctaRank, static_cast<std::uint32_t>(cluster.count()));
  fillRow(warp, IsExplicitCluster, launch.explicitCluster ? fullMask : 0u);
  fillRow(warp, Envreg1, static_cast<std::uint32_t>(launch.environment.gridWorkspace >> 32));
  fillRow(warp, Envreg2, static_cast<std::uint32_t>(launch.environment.gridWorkspace));
  fillRow(warp, Zero, 0u);
  fillRow(warp, GridId64, std::uint64_t{0});
  fillRow(warp, Zero64, std::uint64_t{0});
  fillRow(warp, DynamicSharedBase64, std::uint64_t{dynamicBase});
}

} // namespace

Block::Block(const Launch &launch)
    : launch(&launch), program(launch.program), environment(launch.environment) {
  const FunctionCode &function = *launch.function;
  threads = static_cast<std::uint32_t>(launch.shape.block.count());
  std::uint32_t dynamicBase = (function.staticSharedBytes + 15) / 16 * 16;
  sharedBytes = launch.shape.dynamicSharedBytes ? dynamicBase + launch.shape.dynamicSharedBytes
                                                : function.staticSharedBytes;
  shared.resize(sharedBytes + 16);
  std::uint32_t count = (threads + warpSize - 1) / warpSize;
  warps.resize(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    Warp &warp = warps[i];
    warp.block = this;
    warp.index = i;
    warp.rows.grow(std::max(function.frameBytes, 64u)); // a kernel may have no registers
    warp.specials.grow(std::size_t{SpecialRowsEnd} * rowBytes32);
    warp.localStride = (function.localBytes + 63) / 64 * 64;
    warp.local.resize(std::size_t{warp.localStride} * warpSize);
    // No op writes to the constants; one table of bases serves reads and writes.
    warp.base[ConstantBase] = const_cast<std::byte *>(program->constants.data());
    warp.base[SpecialBase] = warp.specials.data();
    fillThreadRows(warp, launch.shape.block);
    fillLaunchRows(warp, launch, count, sharedBytes, dynamicBase);
  }
  for (Barrier &each : barriers)
    each.arrived.resize(count);
}

void Block::reset(const Dim3 &newId) {
  id = newId;
  const Dim3 &extents = launch->cluster;
  std::fill(shared.begin(), shared.end(), unwrittenByte);
  const FunctionCode &function = *launch->function;
  for (Warp &warp : warps) {
    std::uint32_t first = warp.index * warpSize;
    std::uint32_t lanes = threads - first < warpSize ? threads - first : warpSize;
    warp.live = lanes == warpSize ? fullMask : (1u << lanes) - 1;
    warp.current = 0;
    Group start;
    start.pc = function.entryPc;
    start.mask = warp.live;
    start.function = static_cast<std::uint32_t>(&function - program->functions.data());
    warp.groups.assign(1, start);
    std::memset(warp.rows.data(), 0, warp.rows.size());
    // Undefined registers hold a great number in some blocks, and a number far below zero in
    // others.
    std::byte unwritten = (id.x & 1) != 0 ? unwrittenByte : ~unwrittenByte;
    for (auto [offset, bytes] : function.unwrittenRows)
      std::memset(warp.rows.data() + offset, std::to_integer<int>(unwritten), bytes);
    std::fill(warp.local.begin(), warp.local.end(), unwrittenByte);
    fillRow(warp, CtaidX, id.x);
    fillRow(warp, CtaidY, id.y);
    fillRow(warp, CtaidZ, id.z);
    fillRow(warp, SmId, virtualSm);
    fillRow(warp, ClusterIdX, id.x / extents.x);
    fillRow(warp, ClusterIdY, id.y / extents.y);
    fillRow(warp, ClusterIdZ, id.z / extents.z);
    fillRow(warp, ClusterCtaidX, id.x % extents.x);
    fillRow(warp, ClusterCtaidY, id.y % extents.y);
    fillRow(warp, ClusterCtaidZ, id.z % extents.z);
    fillRow(warp, ClusterCtaRank, rank);
    warp.clusterArrived = warp.clusterPassed = 0;
  }
  for (Barrier &each : barriers) {
    each.active = false;
    each.expected = each.extra = each.count = each.trueCount = 0;
    std::fill(each.arrived.begin(), each.arrived.end(), 0u);
  }
  liveWarps = static_cast<std::uint32_t>(warps.size());
  nextWarp = 0;
  executed = steps = 0;
  fault.reset();
}

Status readClock(Warp &warp, const Op &op, std::uint32_t mask) {
  auto *d = warp.row<std::uint64_t>(op.slot[0]);
  std::uint64_t now = warp.block->steps;
  for (; mask; mask &= mask - 1)
    d[std::countr_zero(mask)] = now;
  return Status::Next;
}

Status readGlobalTimer(Warp &warp, const Op &op, std::uint32_t mask) {
  auto *d = warp.row<std::uint64_t>(op.slot[0]);
  auto now = static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                            std::chrono::system_clock::now().time_since_epoch())
                                            .count());
  for (; mask; mask &= mask - 1)
    d[std::countr_zero(mask)] = now;
  return Status::Next;
}

} // namespace tally::emulator
