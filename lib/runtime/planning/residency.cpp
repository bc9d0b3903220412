#include "planning/residency.h"

#include <algorithm>

namespace tally::runtime {

namespace {

/// CUDA C++ Programming Guide, "Compute Capabilities": warps get registers in units of 256, blocks
/// get shared memory in units of 128 bytes, and the system takes 1 KB of a block's shared memory
/// (from compute capability 8 on).
constexpr std::uint32_t warpThreads = 32, registerPiece = 256, sharedPiece = 128,
                        systemSharedBytes = 1024;
/// An SM has four parts, each with a quarter of its registers and of its places for warps. So a
/// number of warps that is no multiple of four counts as the next multiple.
constexpr std::uint32_t partsOfSm = 4;

constexpr std::uint32_t roundUp(std::uint32_t value, std::uint32_t piece) {
  return (value + piece - 1) / piece * piece;
}

std::uint32_t percentOf(std::uint32_t all, std::uint32_t percent) {
  // Round the remainder, which is for other work, down.
  return all - static_cast<std::uint32_t>(std::uint64_t{all} * (100 - percent) / 100);
}

/// Places for blocks on an SM; as many as for warps where the device does not tell.
std::uint32_t placesOf(const DeviceInfo &device) {
  return device.blocksPerSm != 0 ? device.blocksPerSm : device.threadsPerSm / warpThreads;
}

/// Returns how many of `most` blocks fit in `available`.
std::uint32_t countIn(const Footprint &available, const FunctionAttributes &function,
                      const LaunchShape &shape, std::uint32_t most) {
  // Four blocks load all parts of the SM equally, so a quarter of their footprint is exact for one
  // block.
  Footprint four = footprintOf(function, shape, partsOfSm);
  auto limit = [&](std::uint64_t has, std::uint32_t takes) {
    if (takes != 0)
      most = static_cast<std::uint32_t>(std::min<std::uint64_t>(most, has * partsOfSm / takes));
  };
  limit(available.threads, four.threads);
  limit(available.registers, four.registers);
  limit(available.sharedBytes, four.sharedBytes);
  while (most > 0 && !available.holds(footprintOf(function, shape, most)))
    --most;
  return most;
}

} // namespace

Footprint footprintOf(const FunctionAttributes &function, const LaunchShape &shape,
                      std::uint32_t count) {
  auto warps = roundUp(static_cast<std::uint32_t>(shape.block.count()), warpThreads) / warpThreads;
  std::uint32_t placed = roundUp(warps * count, partsOfSm);
  std::uint32_t shared = roundUp(
      function.staticSharedBytes + shape.dynamicSharedBytes + systemSharedBytes, sharedPiece);
  return {placed * warpThreads, placed * roundUp(function.registers * warpThreads, registerPiece),
          count * shared, count};
}

Footprint wholeSm(const DeviceInfo &device) {
  return {device.threadsPerSm, device.registersPerSm, device.sharedBytesPerSm, placesOf(device)};
}

Footprint reserveOf(const DeviceInfo &device, std::uint32_t percent) {
  // Less the 1 KB of a block, else blocks that share the rest could never be padded to leave this
  // much.
  std::uint32_t shared = percentOf(device.sharedBytesPerSm, percent);
  return {percentOf(device.threadsPerSm, percent), percentOf(device.registersPerSm, percent),
          shared - std::min(shared, systemSharedBytes), percentOf(placesOf(device), percent)};
}

Footprint needOf(const DeviceInfo &device, const FunctionAttributes &function,
                 const LaunchShape &shape) {
  std::uint64_t sms = std::max(device.smCount, 1u);
  std::uint64_t part =
      std::min<std::uint64_t>((shape.grid.count() + sms - 1) / sms, placesOf(device));
  // A block that fits no SM takes more than an SM has.
  std::uint32_t count = countIn(wholeSm(device), function, shape, static_cast<std::uint32_t>(part));
  return footprintOf(function, shape, std::max(count, 1u));
}

std::uint32_t besideHeadroom(const DeviceInfo &device, const FunctionAttributes &function,
                             const LaunchShape &shape, std::uint32_t resident,
                             const Footprint &headroom) {
  if (device.threadsPerSm == 0 || !wholeSm(device).holds(headroom))
    return 0;
  return countIn(leftBy(device, headroom), function, shape, resident);
}

std::uint32_t paddingFor(const DeviceInfo &device, const FunctionAttributes &function,
                         const LaunchShape &shape, std::uint32_t count, std::uint32_t most,
                         const Footprint &headroom) {
  std::uint32_t has = device.sharedBytesPerSm, takes = footprintOf(function, shape).sharedBytes;
  std::uint32_t least = (has / (count + 1) / sharedPiece + 1) * sharedPiece;
  std::uint64_t together = std::uint64_t{count} * least, before = std::uint64_t{most} * takes;
  std::uint64_t whole = std::uint64_t{least} - systemSharedBytes;
  if (takes >= least || together > leftBy(device, headroom).sharedBytes ||
      together > before + has / 16 || whole > device.maxSharedBytesPerBlock)
    return 0;
  return least - takes;
}

Footprint leftBy(const DeviceInfo &device, const Footprint &taken) {
  auto left = [](std::uint32_t all, std::uint32_t part) { return all - std::min(all, part); };
  Footprint all = wholeSm(device);
  return {left(all.threads, taken.threads), left(all.registers, taken.registers),
          left(all.sharedBytes, taken.sharedBytes), left(all.blocks, taken.blocks)};
}

} // namespace tally::runtime
