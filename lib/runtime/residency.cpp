#include "residency.h"

#include <algorithm>

namespace tally::runtime {

namespace {

/// CUDA C++ Programming Guide, "Compute Capabilities": registers go to warps by 256, shared memory
/// to blocks by 128 bytes, of which the system takes 1 KB (from compute capability 8 on).
constexpr std::uint32_t warpThreads = 32, registerPiece = 256, sharedPiece = 128,
                        systemSharedBytes = 1024;

constexpr std::uint32_t roundUp(std::uint32_t value, std::uint32_t piece) {
  return (value + piece - 1) / piece * piece;
}

/// How many of `each` fit in `percent` of `all`.
std::uint32_t countIn(std::uint64_t all, std::uint32_t percent, std::uint32_t each) {
  return each == 0 ? ~std::uint32_t{0} : static_cast<std::uint32_t>(all * percent / 100 / each);
}

std::uint32_t countIn(const DeviceInfo &device, const Footprint &block, std::uint32_t percent) {
  return std::min({countIn(device.threadsPerSm, percent, block.threads),
                   countIn(device.registersPerSm, percent, block.registers),
                   countIn(device.sharedBytesPerSm, percent, block.sharedBytes)});
}

} // namespace

Footprint footprintOf(const FunctionAttributes &function, const LaunchShape &shape) {
  auto threads = roundUp(static_cast<std::uint32_t>(shape.block.count()), warpThreads);
  return {threads, threads / warpThreads * roundUp(function.registers * warpThreads, registerPiece),
          roundUp(function.staticSharedBytes + shape.dynamicSharedBytes + systemSharedBytes,
                  sharedPiece)};
}

std::uint32_t besideReserve(const DeviceInfo &device, const Footprint &block,
                            std::uint32_t resident, std::uint32_t reserve) {
  if (device.threadsPerSm == 0)
    return 0;
  return std::min(resident, countIn(device, block, 100 - reserve));
}

bool fitsReserve(const DeviceInfo &device, const Footprint &block, std::uint32_t reserve) {
  return countIn(device, block, reserve) > 0;
}

} // namespace tally::runtime
