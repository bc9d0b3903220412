// Textures and surfaces: the objects behind the 64-bit handles of PTX's tex, suld and sust.
#ifndef TALLY_EMULATOR_TEXTURE_H
#define TALLY_EMULATOR_TEXTURE_H

#include <array>
#include <cstdint>

namespace tally::emulator {

enum class TexelKind : std::uint8_t { Signed, Unsigned, Float };
enum class AddressMode : std::uint8_t { Wrap, Clamp, Mirror, Border };

/// Elements in device memory and how to read them (CUDA C++ Programming Guide, "Texture Fetching").
/// Rows are `pitch` bytes apart, slices or layers `slice` bytes.
struct Texture {
  std::uint64_t memory = 0;                       ///< device address of the first element
  std::uint32_t width = 1, height = 1, depth = 1; ///< elements; depth: slices or layers
  std::uint64_t pitch = 0, slice = 0;
  std::uint8_t channels = 1;     ///< 1, 2 or 4
  std::uint8_t channelBytes = 4; ///< 1, 2 or 4; for Float 2 or 4
  TexelKind kind = TexelKind::Float;
  /// Linear memory: fetches outside of it give 0 in every address mode.
  bool isLinearMemory = false;
  bool isLayered = false;
  std::array<AddressMode, 3> addressModes{AddressMode::Clamp, AddressMode::Clamp,
                                          AddressMode::Clamp};
  bool filtersLinearly = false; ///< else the nearest element is read
  bool readsNormalized = false; ///< integers are read as [0, 1] or [-1, 1]
  bool hasNormalizedCoordinates = false;
  std::array<float, 4> border{};

  std::uint64_t elementBytes() const { return std::uint64_t{channels} * channelBytes; }
  /// Bytes from the first element to the end of the last.
  std::uint64_t bytes() const {
    return (depth - 1) * slice + (height - 1) * pitch + width * elementBytes();
  }
};

} // namespace tally::emulator

#endif
