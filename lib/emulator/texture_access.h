// Code shared by texture and surface instructions.
#ifndef TALLY_LIB_EMULATOR_TEXTURE_ACCESS_H
#define TALLY_LIB_EMULATOR_TEXTURE_ACCESS_H

#include "decoder.h"
#include "textures.h"
#include "warp.h"

namespace tally::emulator {

/// The object of a lane, with its memory checked. Lanes mostly name the same object.
class TextureReader {
public:
  TextureReader(Warp &warp, const Op &op) : warp(warp), op(op) {}
  /// Returns false after a fault: there is no such object, or its memory is freed.
  bool select(std::uint32_t lane);
  const Texture &texture() const { return *current; }
  std::byte *memory() const { return begin; }

private:
  Warp &warp;
  const Op &op;
  std::uint64_t handle = 0;
  std::shared_ptr<const Texture> current;
  std::byte *begin = nullptr;
};

struct TextureGeometry {
  std::uint32_t dimensions = 0; ///< 1 to 3; 0: a geometry that the emulator lacks
  bool isLayered = false;
};
TextureGeometry geometryOf(const ptx::Instruction &instruction);

/// Slots 4 (the object) and 5 and up (coordinates, a layer first) from `[object, {coordinates}]`.
bool textureAddress(FunctionDecoder &decoder, const ptx::Operand &operand,
                    const TextureGeometry &geometry, Type coordinate, Op &op);

bool decodeSurface(FunctionDecoder &decoder, const ptx::Instruction &instruction);

} // namespace tally::emulator

#endif
