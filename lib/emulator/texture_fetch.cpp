// tex (PTX ISA 9.7.10.3): fetches from texture objects without mipmaps. Filtering weights have 8
// bits of fraction, as the CUDA C++ Programming Guide ("Linear Filtering") says.
#include "decoder.h"
#include "half.h"
#include "texture_access.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace tally::emulator {

namespace {

using ptx::Instruction;
using ptx::OperandKind;

/// Channels in the instruction's element type: bits of floats or integers.
struct Texel {
  std::uint32_t channel[4];
};

constexpr std::uint32_t signExtended(std::uint32_t value, std::uint32_t bits) {
  std::uint32_t unused = 32 - bits;
  return static_cast<std::uint32_t>(static_cast<std::int32_t>(value << unused) >> unused);
}

std::uint32_t channelOf(const Texture &texture, const std::byte *from) {
  std::uint32_t raw = 0, bits = 8u * texture.channelBytes;
  std::memcpy(&raw, from, texture.channelBytes);
  if (texture.kind == TexelKind::Float)
    return bits == 16 ? std::bit_cast<std::uint32_t>(halfToFloat(static_cast<std::uint16_t>(raw)))
                      : raw;
  bool isSignedKind = texture.kind == TexelKind::Signed;
  if (isSignedKind)
    raw = signExtended(raw, bits);
  if (!texture.readsNormalized)
    return raw;
  auto most = static_cast<float>((std::uint64_t{1} << (isSignedKind ? bits - 1 : bits)) - 1);
  float value =
      isSignedKind ? static_cast<float>(static_cast<std::int32_t>(raw)) : static_cast<float>(raw);
  return std::bit_cast<std::uint32_t>(std::max(value / most, -1.0f));
}

/// Whether the element lies inside after the address mode; changes `index` to the element to read.
bool place(std::int64_t &index, std::uint32_t extent, AddressMode mode, bool isNormalized) {
  std::int64_t size = extent;
  if (index >= 0 && index < size)
    return true;
  if (mode == AddressMode::Border)
    return false;
  if (mode == AddressMode::Wrap && isNormalized) {
    index = ((index % size) + size) % size;
  } else if (mode == AddressMode::Mirror && isNormalized) {
    std::int64_t period = ((index % (2 * size)) + 2 * size) % (2 * size);
    index = period < size ? period : 2 * size - 1 - period;
  } else {
    index = std::clamp<std::int64_t>(index, 0, size - 1);
  }
  return true;
}

struct Point {
  std::int64_t x = 0, y = 0, z = 0;
};

Texel texelAt(const Texture &texture, const std::byte *memory, Point at) {
  Texel texel{};
  const auto &modes = texture.addressModes;
  bool isNormalized = texture.hasNormalizedCoordinates, isInside = true;
  if (texture.isLinearMemory) {
    isInside = at.x >= 0 && at.x < texture.width;
  } else {
    isInside = place(at.x, texture.width, modes[0], isNormalized) &&
               place(at.y, texture.height, modes[1], isNormalized);
    if (texture.isLayered)
      at.z = std::clamp<std::int64_t>(at.z, 0, texture.depth - 1);
    else
      isInside = isInside && place(at.z, texture.depth, modes[2], isNormalized);
  }
  if (!isInside) {
    bool isReal = texture.kind == TexelKind::Float || texture.readsNormalized;
    for (std::size_t i = 0; i < 4 && isReal && !texture.isLinearMemory; ++i)
      texel.channel[i] = std::bit_cast<std::uint32_t>(texture.border[i]);
    return texel;
  }
  const std::byte *from = memory + static_cast<std::uint64_t>(at.z) * texture.slice +
                          static_cast<std::uint64_t>(at.y) * texture.pitch +
                          static_cast<std::uint64_t>(at.x) * texture.elementBytes();
  for (std::uint32_t i = 0; i < texture.channels; ++i)
    texel.channel[i] = channelOf(texture, from + i * texture.channelBytes);
  return texel;
}

/// An element below a coordinate, and the weight of the next element above it.
struct Split {
  std::int64_t below = 0;
  float above = 0;
};

Split split(float coordinate) {
  if (!(std::fabs(coordinate) < 1e9f)) // far outside, or not a number
    return {coordinate > 0 ? std::int64_t{1} << 30 : -(std::int64_t{1} << 30), 0};
  float shifted = coordinate - 0.5f, below = std::floor(shifted);
  return {static_cast<std::int64_t>(below), std::nearbyint((shifted - below) * 256.0f) / 256.0f};
}

std::int64_t nearest(float coordinate) {
  return std::fabs(coordinate) < 1e9f
             ? static_cast<std::int64_t>(std::floor(coordinate))
             : (coordinate > 0 ? std::int64_t{1} << 30 : -(std::int64_t{1} << 30));
}

Texel filtered(const Texture &texture, const std::byte *memory, const float *at,
               std::uint32_t dimensions, std::int64_t layer) {
  Split splits[3];
  for (std::uint32_t i = 0; i < dimensions; ++i)
    splits[i] = split(at[i]);
  float sums[4] = {};
  for (std::uint32_t corner = 0; corner < 1u << dimensions; ++corner) {
    float weight = 1;
    std::int64_t position[3] = {0, 0, layer};
    for (std::uint32_t i = 0; i < dimensions; ++i) {
      bool isAbove = corner >> i & 1u;
      weight *= isAbove ? splits[i].above : 1 - splits[i].above;
      position[i] = splits[i].below + isAbove;
    }
    if (weight == 0)
      continue;
    Texel texel = texelAt(texture, memory, {position[0], position[1], position[2]});
    for (int i = 0; i < 4; ++i)
      sums[i] += weight * std::bit_cast<float>(texel.channel[i]);
  }
  Texel result{};
  for (int i = 0; i < 4; ++i)
    result.channel[i] = std::bit_cast<std::uint32_t>(sums[i]);
  return result;
}

enum FetchFlags : std::uint8_t {
  IntegerCoordinates = 4,
  Layered = 8
}; // and the dimensions, 1 to 3

// Op::slot: 0 to 3 destinations or noSlot, 4 the object, 5 to 7 the coordinates, the layer first.
Status fetch(Warp &warp, const Op &op, std::uint32_t mask) {
  const std::uint32_t dimensions = op.flags & 3u;
  const bool isLayered = op.flags & Layered;
  TextureReader reader(warp, op);
  for (; mask; mask &= mask - 1) {
    auto lane = static_cast<std::uint32_t>(std::countr_zero(mask));
    if (!reader.select(lane))
      return Status::Fault;
    const Texture &texture = reader.texture();
    std::uint32_t bits[3] = {};
    for (std::uint32_t i = 0; i < dimensions + isLayered; ++i)
      bits[i] = warp.row<std::uint32_t>(op.slot[5 + i])[lane];
    std::int64_t layer = isLayered ? static_cast<std::int32_t>(bits[0]) : 0;
    const std::uint32_t *coordinates = bits + isLayered;
    Texel texel{};
    if (op.flags & IntegerCoordinates) {
      std::int64_t at[3] = {0, 0, layer};
      for (std::uint32_t i = 0; i < dimensions; ++i)
        at[i] = static_cast<std::int32_t>(coordinates[i]);
      texel = texelAt(texture, reader.memory(), {at[0], at[1], at[2]});
    } else {
      float at[3] = {};
      const std::uint32_t extents[] = {texture.width, texture.height, texture.depth};
      for (std::uint32_t i = 0; i < dimensions; ++i) {
        at[i] = std::bit_cast<float>(coordinates[i]);
        if (texture.hasNormalizedCoordinates)
          at[i] *= static_cast<float>(extents[i]);
      }
      bool isReal = texture.kind == TexelKind::Float || texture.readsNormalized;
      texel = texture.filtersLinearly && isReal
                  ? filtered(texture, reader.memory(), at, dimensions, layer)
                  : texelAt(texture, reader.memory(),
                            {nearest(at[0]), dimensions > 1 ? nearest(at[1]) : 0,
                             dimensions > 2 ? nearest(at[2]) : layer});
    }
    for (std::uint32_t i = 0; i < 4; ++i)
      if (op.slot[i] != noSlot)
        warp.row<std::uint32_t>(op.slot[i])[lane] = texel.channel[i];
  }
  return Status::Next;
}

} // namespace

bool decodeTexture(FunctionDecoder &decoder, const Instruction &instruction) {
  if (instruction.opcode == "suld" || instruction.opcode == "sust")
    return decodeSurface(decoder, instruction);
  const auto &operands = instruction.operands;
  if (instruction.opcode != "tex" || instruction.has("grad") || operands.size() < 2 ||
      operands.size() > 3 || operands[0].kind != OperandKind::Vector)
    return false;
  Op op;
  op.handler = fetch;
  TextureGeometry geometry = geometryOf(instruction);
  Type coordinate = lastType(instruction), element = typeBeforeLast(instruction);
  if (geometry.dimensions == 0 || sizeOf(element) != 4 ||
      (coordinate != Type::F32 && coordinate != Type::S32))
    return false;
  op.flags = static_cast<std::uint8_t>(geometry.dimensions | (geometry.isLayered ? Layered : 0) |
                                       (coordinate == Type::S32 ? IntegerCoordinates : 0));
  if (!textureAddress(decoder, operands[1], geometry, coordinate, op))
    return false;
  for (std::size_t i = 0; i < operands[0].children.size() && i < 4; ++i)
    if (operands[0].children[i].kind != OperandKind::Sink)
      op.slot[i] = decoder.destination(operands[0].children[i], Type::B32);
  if (!decoder.failed())
    decoder.emit(op);
  return true;
}

} // namespace tally::emulator
