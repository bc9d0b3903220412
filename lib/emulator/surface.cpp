// suld.b and sust.b (PTX ISA 9.7.11.1, 9.7.11.2): surfaces addressed by bytes in x, and code shared
// with textures.
#include "texture_access.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace tally::emulator {

using ptx::Instruction;
using ptx::OperandKind;

bool TextureReader::select(std::uint32_t lane) {
  std::uint64_t wanted = warp.row<std::uint64_t>(op.slot[4])[lane];
  if (current && wanted == handle)
    return true;
  const Environment &environment = warp.block->environment;
  current = environment.textures->find(wanted);
  handle = wanted;
  if (!current) {
    raise(warp, op, lane, FaultKind::OutOfBounds,
          fmt::format("{:#x} is no texture or surface object", wanted));
    return false;
  }
  Segment segment = environment.globalMemory->find(current->memory);
  if (segment.end == 0 || current->bytes() > segment.end - current->memory) {
    raise(warp, op, lane, FaultKind::OutOfBounds,
          fmt::format("the memory of the texture or surface {:#x} is freed", wanted));
    return false;
  }
  begin = environment.globalMemory->host(current->memory);
  return true;
}

TextureGeometry geometryOf(const Instruction &instruction) {
  if (instruction.has("1d"))
    return {1, false};
  if (instruction.has("2d"))
    return {2, false};
  if (instruction.has("3d"))
    return {3, false};
  if (instruction.has("a1d"))
    return {1, true};
  return instruction.has("a2d") ? TextureGeometry{2, true} : TextureGeometry{};
}

bool textureAddress(FunctionDecoder &decoder, const ptx::Operand &operand,
                    const TextureGeometry &geometry, Type coordinate, Op &op) {
  if (operand.kind != OperandKind::Address || operand.children.size() != 2 ||
      operand.children[0].kind != OperandKind::Register)
    return false;
  const ptx::Operand &list = operand.children[1];
  auto coordinates =
      list.kind == OperandKind::Vector ? list.children : std::span<const ptx::Operand>(&list, 1);
  std::uint32_t count = geometry.dimensions + geometry.isLayered;
  if (coordinates.size() < count)
    return false;
  op.slot[4] = decoder.source(operand.children[0], Type::B64);
  for (std::uint32_t i = 0; i < count; ++i)
    op.slot[5 + i] =
        decoder.source(coordinates[i], geometry.isLayered && i == 0 ? Type::S32 : coordinate);
  return true;
}

namespace {

enum SurfaceFlags : std::uint8_t {
  SurfaceLayered = 4, // and the dimensions, 1 to 3
  Stores = 8,
  ClampsOutside = 16,
  ZeroOutside = 32
};

/// Returns the element's first byte; null where a fetch or store outside the surface has no effect.
/// Faults under `.trap`.
std::byte *elementOf(Warp &warp, const Op &op, std::uint32_t lane, const TextureReader &reader,
                     std::uint32_t bytes, bool &faulted) {
  const Texture &surface = reader.texture();
  std::int64_t at[3] = {};
  std::uint32_t dimensions = op.flags & 3u, layered = op.flags & SurfaceLayered ? 1 : 0;
  for (std::uint32_t i = 0; i < dimensions; ++i)
    at[i] = warp.row<std::int32_t>(op.slot[5 + layered + i])[lane];
  if (layered)
    at[2] = warp.row<std::int32_t>(op.slot[5])[lane];
  const std::int64_t most[3] = {static_cast<std::int64_t>(surface.width * surface.elementBytes()) -
                                    bytes,
                                std::int64_t{surface.height} - 1, std::int64_t{surface.depth} - 1};
  bool isInside = true;
  for (int i = 0; i < 3; ++i)
    isInside = isInside && at[i] >= 0 && at[i] <= most[i];
  if (!isInside && op.flags & ClampsOutside)
    for (int i = 0; i < 3; ++i)
      at[i] = std::clamp<std::int64_t>(at[i], 0, most[i]);
  else if (!isInside && op.flags & ZeroOutside)
    return nullptr;
  else if (!isInside || at[0] % bytes) {
    faulted = true;
    raise(warp, op, lane, isInside ? FaultKind::Misaligned : FaultKind::OutOfBounds,
          fmt::format("{} surface access of {} bytes at ({}, {}, {})",
                      isInside ? "misaligned" : "out-of-bounds", bytes, at[0], at[1], at[2]));
    return nullptr;
  }
  return reader.memory() + static_cast<std::uint64_t>(at[2]) * surface.slice +
         static_cast<std::uint64_t>(at[1]) * surface.pitch + static_cast<std::uint64_t>(at[0]);
}

// Op::slot as for tex; `extra`: bytes of a component, and the number of components above them.
template <class R> Status accessSurface(Warp &warp, const Op &op, std::uint32_t mask) {
  std::uint32_t bytes = op.extra & 0xffu, count = op.extra >> 8;
  TextureReader reader(warp, op);
  for (; mask; mask &= mask - 1) {
    auto lane = static_cast<std::uint32_t>(std::countr_zero(mask));
    if (!reader.select(lane))
      return Status::Fault;
    bool faulted = false;
    std::byte *element = elementOf(warp, op, lane, reader, bytes * count, faulted);
    if (faulted)
      return Status::Fault;
    for (std::uint32_t i = 0; i < count; ++i) {
      R &value = warp.row<R>(op.slot[i])[lane];
      if (!(op.flags & Stores))
        value = 0;
      if (element && op.flags & Stores)
        std::memcpy(element + i * bytes, &value, bytes);
      else if (element)
        std::memcpy(&value, element + i * bytes, bytes);
    }
  }
  return Status::Next;
}

} // namespace

bool decodeSurface(FunctionDecoder &decoder, const Instruction &instruction) {
  const auto &operands = instruction.operands;
  bool stores = instruction.opcode == "sust";
  if (!instruction.has("b") || operands.size() != 2)
    return false;
  TextureGeometry geometry = geometryOf(instruction);
  Type type = lastType(instruction);
  const ptx::Operand &values = operands[stores ? 1 : 0];
  if (geometry.dimensions == 0 || values.kind != OperandKind::Vector || sizeOf(type) == 0 ||
      sizeOf(type) > 8)
    return false;
  Op op;
  std::uint32_t row = registerSizeOf(type);
  op.handler = row == 2   ? accessSurface<std::uint16_t>
               : row == 4 ? accessSurface<std::uint32_t>
                          : accessSurface<std::uint64_t>;
  op.extra = sizeOf(type) | static_cast<std::uint32_t>(values.children.size()) << 8;
  op.flags = static_cast<std::uint8_t>(
      geometry.dimensions | (geometry.isLayered ? SurfaceLayered : 0) | (stores ? Stores : 0) |
      (instruction.has("clamp") ? ClampsOutside : 0) | (instruction.has("zero") ? ZeroOutside : 0));
  if (!textureAddress(decoder, operands[stores ? 0 : 1], geometry, Type::S32, op))
    return false;
  for (std::size_t i = 0; i < values.children.size() && i < 4; ++i)
    op.slot[i] = stores ? decoder.source(values.children[i], type)
                        : decoder.destination(values.children[i], type);
  if (!decoder.failed())
    decoder.emit(op);
  return true;
}

} // namespace tally::emulator
