#include "occupancy.h"

#include <algorithm>

namespace tally::ptxopt {
namespace {

struct Limits {
  std::uint32_t arch, warps, blocks, sharedKiB;
};

// The last row whose arch is at most the requested one counts.
constexpr Limits table[] = {
    {50, 64, 32, 64},   {53, 64, 32, 64},   {60, 64, 32, 64},   {61, 64, 32, 96},
    {62, 64, 32, 64},   {70, 64, 32, 96},   {75, 32, 16, 64},   {80, 64, 32, 164},
    {86, 48, 16, 100},  {87, 48, 16, 164},  {89, 48, 24, 100},  {90, 64, 32, 228},
    {100, 64, 32, 228}, {103, 64, 32, 228}, {110, 48, 24, 228}, {120, 48, 24, 100},
};
constexpr std::uint32_t registersPerPartition = 16384, partitions = 4, registerUnit = 256;

constexpr std::uint32_t roundUp(std::uint32_t value, std::uint32_t unit) {
  return (value + unit - 1) / unit * unit;
}

Limits limitsOf(std::uint32_t arch) {
  Limits limits = table[0];
  for (const Limits &row : table)
    if (row.arch <= arch)
      limits = row;
  return limits;
}

constexpr std::uint32_t warpsOf(std::uint32_t threads) { return (std::max(threads, 1u) + 31) / 32; }
/// Returns the registers of a warp, which are allocated in units.
constexpr std::uint32_t registersOfWarp(std::uint32_t registers) {
  return roundUp(std::max(registers, 1u) * 32, registerUnit);
}

} // namespace

std::uint32_t blocksPerSm(std::uint32_t arch, std::uint32_t threads, std::uint32_t registers,
                          std::uint32_t sharedBytes) {
  Limits limits = limitsOf(arch);
  std::uint32_t warps = warpsOf(threads);
  std::uint32_t blocks = std::min(limits.blocks, limits.warps / warps);
  // All of a warp's registers are in one partition of the SM.
  blocks =
      std::min(blocks, registersPerPartition / registersOfWarp(registers) * partitions / warps);
  // From sm_80 on the system takes 1 KiB for each block.
  std::uint32_t shared = arch >= 80 ? roundUp(sharedBytes + 1024, 128) : roundUp(sharedBytes, 256);
  if (shared > 0)
    blocks = std::min(blocks, limits.sharedKiB * 1024 / shared);
  return blocks;
}

std::uint32_t registersLeft(std::uint32_t threads, std::uint32_t registers, std::uint32_t blocks) {
  std::uint32_t all = partitions * registersPerPartition;
  return all - std::min(all, blocks * warpsOf(threads) * registersOfWarp(registers));
}

std::uint32_t threadsLeft(std::uint32_t arch, std::uint32_t threads, std::uint32_t blocks) {
  std::uint32_t all = limitsOf(arch).warps;
  return (all - std::min(all, blocks * warpsOf(threads))) * 32;
}

bool declaresThreads(const ptx::Function &function) {
  return function.directive("reqntid") || function.directive("maxntid");
}

std::uint32_t threadsOf(const ptx::Function &function) {
  for (const char *name : {"reqntid", "maxntid"})
    if (const ptx::HeaderDirective *directive = function.directive(name)) {
      std::uint64_t product = 1;
      for (std::uint64_t extent : directive->values)
        product *= std::clamp<std::uint64_t>(extent, 1, 1024);
      return static_cast<std::uint32_t>(std::min<std::uint64_t>(product, 1024));
    }
  return 256;
}

} // namespace tally::ptxopt
