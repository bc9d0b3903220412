#include "tally/runtime/variant_launch.h"

#include <algorithm>
#include <cassert>

namespace tally::runtime {

namespace {

Dim3 extentsOf(const Dim3 &cluster) { return cluster.x == 0 ? Dim3{1, 1, 1} : cluster; }

/// The largest box of at most `blocks` blocks that is a run of consecutive linear ids: part of a
/// row, whole rows of a plane, or whole planes. Slices go in the order of ids, so that a kernel may
/// wait for lower blocks.
Dim3 boxOf(const Dim3 &grid, std::uint32_t blocks) {
  if (blocks < grid.x)
    return {blocks, 1, 1};
  std::uint32_t rows = blocks / grid.x;
  if (rows < grid.y)
    return {grid.x, rows, 1};
  return {grid.x, grid.y, std::min(rows / grid.y, grid.z)};
}

/// The same in whole clusters; the ids of the clusters are consecutive.
Dim3 boxOf(const Dim3 &grid, const Dim3 &cluster, std::uint32_t blocks) {
  auto count = static_cast<std::uint32_t>(cluster.count());
  Dim3 box = boxOf({grid.x / cluster.x, grid.y / cluster.y, grid.z / cluster.z},
                   std::max(blocks / count, 1u));
  return {box.x * cluster.x, box.y * cluster.y, box.z * cluster.z};
}

} // namespace

VariantLaunch::VariantLaunch(Kind kind, const LaunchShape &user, std::uint32_t sliceBlocks,
                             std::uint32_t workers, bool tickets, std::uint64_t saveStride)
    : variantKind(kind), progress(kind == Kind::Slice   ? Progress::Boxes
                                  : kind == Kind::Guard ? Progress::List
                                                        : Progress::Counter),
      user(user), cluster(extentsOf(user.cluster)),
      sliceExtent(boxOf(user.grid, cluster, sliceBlocks)), workers(workers),
      saveStride(saveStride) {
  assert(sliceBlocks >= 1 && workers >= 1);
  assert(user.grid.x % cluster.x == 0 && user.grid.y % cluster.y == 0 &&
         user.grid.z % cluster.z == 0);
  assert(user.grid.count() >= 1 && user.grid.count() <= maxBlocks(kind, workers));
  if (kind == Kind::Guard && tickets) {
    // Each block takes at most one ticket, so the launch has as many blocks as are left.
    progress = Progress::Counter;
    this->workers = static_cast<std::uint32_t>(user.grid.count());
  }
}

PhysicalLaunch VariantLaunch::next() const {
  assert(!done);
  PhysicalLaunch launch;
  launch.shape = user;
  tally_launch_params &params = launch.params;
  params.grid[0] = user.grid.x;
  params.grid[1] = user.grid.y;
  params.grid[2] = user.grid.z;
  params.by_grid_x = divisorOf(user.grid.x);
  params.by_grid_y = divisorOf(user.grid.y);
  std::uint64_t total = user.grid.count();
  switch (progress) {
  case Progress::Boxes:
    params.offset[0] = sliceOrigin.x;
    params.offset[1] = sliceOrigin.y;
    params.offset[2] = sliceOrigin.z;
    launch.shape.grid = {std::min(sliceExtent.x, user.grid.x - sliceOrigin.x),
                         std::min(sliceExtent.y, user.grid.y - sliceOrigin.y),
                         std::min(sliceExtent.z, user.grid.z - sliceOrigin.z)};
    break;
  case Progress::List:
    params.blocks = static_cast<std::uint32_t>(total);
    launch.resumeEntry = launch.readsList = resuming;
    if (resuming)
      launch.shape.grid = {listLength * cluster.x, cluster.y, cluster.z};
    launch.listCapacity = resuming ? listLength : static_cast<std::uint32_t>(clusters());
    break;
  case Progress::Counter:
    params.blocks = static_cast<std::uint32_t>(total);
    launch.shape.grid = {std::min(workers, params.blocks - nextBlock), 1, 1};
    launch.state.next_block = nextBlock;
    if (variantKind == Kind::Checkpoint) {
      // One slot for each worker, and one worker for each slot.
      launch.shape.grid.x = std::min(workers, params.blocks);
      launch.saveBytes = launch.shape.grid.x * saveStride;
      params.save_stride = static_cast<std::uint32_t>(saveStride);
      params.resume = saved == 0 ? 0 : TALLY_SAVED_UNDER(savedUnder);
    }
    break;
  }
  return launch;
}

bool VariantLaunch::plausible(const tally_launch_state &state) const {
  std::uint64_t total = user.grid.count();
  switch (progress) {
  case Progress::Boxes:
    return true;
  case Progress::List:
    return state.yielded <= (resuming ? listLength : clusters());
  case Progress::Counter:
    return state.next_block >= nextBlock && state.live_workers == 0 &&
           state.next_block <= total + (variantKind == Kind::Guard ? 0 : workers) &&
           state.saved <= (variantKind == Kind::Checkpoint ? workers : 0);
  }
  return false;
}

bool VariantLaunch::ranNothing(const tally_launch_state &state) const {
  switch (progress) {
  case Progress::Boxes:
    return false;
  case Progress::List:
    return state.yielded == (resuming ? listLength : clusters());
  case Progress::Counter:
    return state.next_block == nextBlock && saved == 0;
  }
  return false;
}

bool VariantLaunch::absorb(const tally_launch_state &state, std::uint64_t epoch,
                           std::uint32_t launched) {
  assert(!done && plausible(state));
  switch (progress) {
  case Progress::Boxes: {
    Dim3 box = next().shape.grid;
    sliceOrigin.x += box.x;
    if (sliceOrigin.x == user.grid.x) {
      sliceOrigin.x = 0;
      sliceOrigin.y += box.y;
    }
    if (sliceOrigin.y == user.grid.y) {
      sliceOrigin.y = 0;
      sliceOrigin.z += box.z;
    }
    done = sliceOrigin.z == user.grid.z;
    return false;
  }
  case Progress::List:
    // No block ran: launching the whole grid again needs no list.
    if (!resuming && ranNothing(state))
      return true;
    listLength = state.yielded;
    resuming = listLength != 0;
    done = listLength == 0;
    return !done;
  case Progress::Counter:
    // Clamp the counter, so that it does not grow with each launch beyond the last block.
    nextBlock =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(state.next_block, user.grid.count()));
    assert(saved + state.saved == 0 || launched >= leastWorkers());
    saved = state.saved;
    savedBy = launched;
    savedUnder = epoch;
    done = nextBlock >= user.grid.count() && saved == 0;
    return !done;
  }
  return false;
}

std::uint64_t VariantLaunch::blocksLeft() const {
  assert(progress != Progress::Boxes);
  std::uint64_t total = user.grid.count();
  if (done)
    return 0;
  if (progress == Progress::List)
    return resuming ? std::uint64_t{listLength} * cluster.count() : total;
  return total - nextBlock + saved;
}

void VariantLaunch::goOnAs(Kind kind, std::uint32_t newWorkers, std::uint64_t newStride) {
  assert(hasWorkers(variantKind) && hasWorkers(kind) && saved == 0 && !done);
  assert(newWorkers >= 1 && user.grid.count() <= maxBlocks(kind, newWorkers));
  variantKind = kind;
  workers = newWorkers;
  saveStride = newStride;
}

} // namespace tally::runtime
