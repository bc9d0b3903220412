#include "access.h"

#include "cluster.h"

#include "vector/resolve.h"

#include <fmt/format.h>

namespace tally::emulator {

bool liesInWindow(std::uint64_t address, std::uint64_t window) {
  return address >= window && address - window < windowBytes;
}

namespace {

const char *name(Space space) {
  switch (space) {
  case Space::Generic:
    return "generic";
  case Space::Global:
    return "global";
  case Space::Shared:
    return "shared";
  case Space::SharedCluster:
    return "shared::cluster";
  case Space::Local:
    return "local";
  case Space::Parameter:
    return "parameter";
  }
  return "";
}

const char *name(AccessKind kind) {
  switch (kind) {
  case AccessKind::Read:
    return "read";
  case AccessKind::Write:
    return "write";
  case AccessKind::ReadWrite:
    return "atomic access";
  }
  return "";
}

/// Finds the segment that holds the whole range, through the block's cache.
bool findSegment(Block &block, const Op &op, std::uint64_t least, std::uint64_t end) {
  SegmentCache &cache = block.segments;
  GlobalMemory &globalMemory = *block.environment.globalMemory;
  if (cache.generation != globalMemory.generation()) {
    cache.segment.fill({});
    cache.generation = globalMemory.generation();
  }
  Segment &cached = cache.segment[static_cast<std::size_t>(&op - block.program->code.data()) %
                                  SegmentCache::entries];
  if (least >= cached.begin && end <= cached.end)
    return true;
  Segment found = globalMemory.find(least);
  if (found.end == 0 || end > found.end)
    return false;
  cached = found;
  return true;
}

void tellWatch(Block &block, std::uint64_t watched, std::uint32_t mask, std::uint32_t bytes,
               const std::uint64_t *address) {
  for (; mask; mask &= mask - 1) {
    std::uint64_t each = address[std::countr_zero(mask)];
    if (each < watched + 8 && each + bytes > watched) {
      block.environment.watchedRead(block.environment.watchContext);
      return;
    }
  }
}

/// The target of one lane's address in a space.
struct Place {
  bool good = false;
  std::uint64_t host = 0;
  std::string where; ///< where a bad address points
};

Place placeInShared(Block &block, std::uint64_t offset, std::uint32_t bytes) {
  if (offset < block.sharedBytes && bytes <= block.sharedBytes - offset)
    return {true, reinterpret_cast<std::uint64_t>(block.shared.data()) + offset, {}};
  return {false, 0, fmt::format("the block's shared memory is {} bytes", block.sharedBytes)};
}

/// Another block's shared memory exists from that block's first instruction to its end; a cluster's
/// barrier guarantees both (PTX ISA, "Shared State Space").
Place placeInCluster(Block &block, std::uint64_t offset, std::uint32_t bytes) {
  std::uint64_t named = offset >> clusterRankShift;
  if (named == 0)
    return placeInShared(block, offset, bytes);
  if (named > block.cluster->blocks.size())
    return {false, 0, fmt::format("the cluster has {} blocks", block.cluster->blocks.size())};
  Block &target = *block.cluster->blocks[named - 1];
  if (&target != &block && target.liveWarps == 0)
    return {false, 0, fmt::format("the cluster's block of rank {} has exited", target.rank)};
  if (&target != &block && target.steps == 0)
    return {false, 0, fmt::format("the cluster's block of rank {} has not started", target.rank)};
  return placeInShared(target, offset & sharedOffsetMask, bytes);
}

Place placeInLocal(Warp &warp, std::uint32_t lane, std::uint64_t offset, std::uint32_t bytes) {
  const Group &group = warp.group();
  std::uint64_t end = group.local + warp.block->program->functions[group.function].localBytes;
  if (offset < end && bytes <= end - offset)
    return {true,
            reinterpret_cast<std::uint64_t>(warp.local.data()) +
                std::uint64_t{lane} * warp.localStride + offset,
            {}};
  return {false, 0, fmt::format("the thread's local memory is {} bytes", end)};
}

Place placeInParameters(Block &block, std::uint64_t offset, std::uint32_t bytes, AccessKind kind) {
  const auto &parameters = block.launch->parameters;
  if (kind != AccessKind::Read)
    return {false, 0, "a kernel's parameters are read-only"};
  if (offset < parameters.size() && bytes <= parameters.size() - offset)
    return {true, reinterpret_cast<std::uint64_t>(parameters.data()) + offset, {}};
  return {false, 0, fmt::format("the kernel's parameters are {} bytes", parameters.size())};
}

Place placeInGlobal(Block &block, std::uint64_t address, std::uint32_t bytes) {
  Segment segment = block.environment.globalMemory->before(address);
  if (address < segment.end && bytes <= segment.end - address)
    return {
        true, reinterpret_cast<std::uint64_t>(block.environment.globalMemory->host(address)), {}};
  if (segment.end == 0)
    return {false, 0, "nothing is allocated there"};
  return {false, 0,
          fmt::format("byte {} of the allocation at {:#x}, which is {} bytes",
                      address - segment.begin, segment.begin, segment.end - segment.begin)};
}

Place place(Warp &warp, Space space, std::uint32_t lane, std::uint64_t address, std::uint32_t bytes,
            AccessKind kind) {
  Block &block = *warp.block;
  switch (space) {
  case Space::Shared:
    // nvcc and cvta give shared addresses as offsets; a generic one is accepted as on hardware.
    return placeInShared(block, address, bytes);
  case Space::SharedCluster:
    return placeInCluster(block, address, bytes);
  case Space::Local:
    return placeInLocal(warp, lane, address, bytes);
  case Space::Global:
    return placeInGlobal(block, address, bytes);
  case Space::Parameter:
  case Space::Generic:
    break;
  }
  if (liesInWindow(address, sharedWindow))
    return placeInCluster(block, address - sharedWindow, bytes);
  if (liesInWindow(address, localWindow))
    return placeInLocal(warp, lane, address - localWindow, bytes);
  if (liesInWindow(address, parameterWindow))
    return placeInParameters(block, address - parameterWindow, bytes, kind);
  return placeInGlobal(block, address, bytes);
}

bool fillLaneByLane(Warp &warp, const Op &op, std::uint32_t mask, std::uint32_t bytes,
                    AccessKind kind, std::uint64_t *host) {
  for (; mask; mask &= mask - 1) {
    auto lane = static_cast<std::uint32_t>(std::countr_zero(mask));
    Place found = place(warp, op.space, lane, host[lane], bytes, kind);
    if (!found.good) {
      raise(warp, op, lane, FaultKind::OutOfBounds,
            fmt::format("out-of-bounds {} {} of {} bytes at {:#x} ({})", name(op.space), name(kind),
                        bytes, host[lane], found.where));
      return false;
    }
    host[lane] = found.host;
  }
  return true;
}

bool misaligned(Warp &warp, const Op &op, std::uint32_t mask, std::uint32_t bytes, AccessKind kind,
                const std::uint64_t *address) {
  for (; mask; mask &= mask - 1) {
    auto lane = static_cast<std::uint32_t>(std::countr_zero(mask));
    if (address[lane] & (bytes - 1)) {
      raise(warp, op, lane, FaultKind::Misaligned,
            fmt::format("misaligned {} {} of {} bytes at {:#x}", name(op.space), name(kind), bytes,
                        address[lane]));
      return true;
    }
  }
  return false;
}

} // namespace

bool checkAccess(Warp &warp, const Op &op, std::uint32_t mask, std::uint32_t bytes, AccessKind kind,
                 const Accessed &accessed, std::uint64_t *host, std::uint64_t &bias) {
  Block &block = *warp.block;
  if ((accessed.bits & (bytes - 1)) && misaligned(warp, op, mask, bytes, kind, host))
    return false;
  std::uint64_t end = accessed.most + bytes;
  bool maybeGlobal = op.space == Space::Global || op.space == Space::Generic;
  if (maybeGlobal && accessed.least >= globalWindow && end < globalWindow + windowBytes) {
    std::uint64_t watched = block.environment.watchedWord->load(std::memory_order_relaxed);
    if (watched && kind != AccessKind::Write && accessed.least < watched + 8 && end > watched)
      tellWatch(block, watched, mask, bytes, host);
    if (findSegment(block, op, accessed.least, end)) {
      bias = block.environment.globalMemory->bias();
      return true;
    }
  } else if (op.space == Space::Shared && end <= block.sharedBytes && end > accessed.most &&
             accessed.least <= accessed.most) {
    bias = reinterpret_cast<std::uint64_t>(block.shared.data());
    return true;
  }
  bias = perLane;
  return fillLaneByLane(warp, op, mask, bytes, kind, host);
}

std::uint64_t hostRange(Warp &warp, const Op &op, std::uint32_t lane, Space space,
                        std::uint64_t address, std::uint32_t bytes, AccessKind kind) {
  Place found = place(warp, space, lane, address, bytes, kind);
  if (found.good)
    return found.host;
  raise(warp, op, lane, FaultKind::OutOfBounds,
        fmt::format("out-of-bounds {} {} of {} bytes at {:#x} ({})", name(space), name(kind), bytes,
                    address, found.where));
  return 0;
}

bool resolveAddresses(Warp &warp, const Op &op, std::uint32_t mask, std::uint32_t bytes,
                      AccessKind kind, std::uint64_t *host) {
  return plain::resolve(warp, op, mask, bytes, kind, host);
}

} // namespace tally::emulator
