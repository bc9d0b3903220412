// Extents and positions of grids and thread blocks.
#ifndef TALLY_SUPPORT_DIM3_H
#define TALLY_SUPPORT_DIM3_H

#include <cstdint>

namespace tally {

/// Three extents, or a position in them; x varies fastest, as in CUDA.
struct Dim3 {
  std::uint32_t x = 1, y = 1, z = 1;

  /// Number of elements of the box with these extents; 64 bits hold any CUDA grid.
  constexpr std::uint64_t count() const { return std::uint64_t{x} * y * z; }
  friend constexpr bool operator==(const Dim3 &, const Dim3 &) = default;
};

/// The launch shape of a kernel: grid in thread blocks, block in threads, dynamic shared memory in
/// bytes, and extents of the thread block clusters in blocks, which divide the grid's. Zero cluster
/// extents: the kernel's own requirement, if any.
struct LaunchShape {
  Dim3 grid, block;
  std::uint32_t dynamicSharedBytes = 0;
  Dim3 cluster{0, 0, 0};
};

} // namespace tally

#endif
