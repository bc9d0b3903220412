// The internal form of decoded instructions: one Op per step of a warp, with operands resolved to
// rows and a handler specialised by type.
//
// A row holds one value for each of the warp's 32 lanes; a predicate is one 32-bit mask. A Slot is
// the position of a row: a byte offset, with its base in the two low bits.
#ifndef TALLY_LIB_EMULATOR_OP_H
#define TALLY_LIB_EMULATOR_OP_H

#include <cstddef>
#include <cstdint>

namespace tally::emulator {

inline constexpr std::uint32_t warpSize = 32;
/// Bytes of a register's elements for all lanes, padded so that each row begins on a cache line.
constexpr std::uint32_t rowBytes(std::uint32_t elementBytes) {
  return (warpSize * elementBytes + 63) / 64 * 64;
}
inline constexpr std::uint32_t fullMask = 0xffffffffu;

using Slot = std::uint32_t;
enum SlotBase : std::uint32_t {
  FrameBase = 0,    ///< registers of the running function's frame
  ConstantBase = 1, ///< immediates, splatted, shared by all warps
  SpecialBase = 2   ///< special registers of the warp
};
inline constexpr Slot noSlot = ~Slot{0};

/// The interpreter loop's action after a handler.
enum class Status : std::uint8_t {
  Next,       ///< continue with the next op
  Jump,       ///< the whole group continues at its pc, which the handler has set
  Reschedule, ///< the handler has placed its lanes itself: choose a group again
  Fault       ///< the warp's fault is set
};

struct Warp;
struct Op;
using Handler = Status (*)(Warp &warp, const Op &op, std::uint32_t mask);

enum class Space : std::uint8_t { Generic, Global, Shared, SharedCluster, Local, Parameter };

struct alignas(64) Op {
  Handler handler = nullptr;
  Slot slot[8] = {noSlot, noSlot, noSlot, noSlot, noSlot, noSlot, noSlot, noSlot};
  std::int64_t immediate = 0; ///< byte offset of an address, target of a branch, …
  Slot guard = noSlot;
  std::uint32_t extra = 0;       ///< for the handler, set by its decoder
  std::uint32_t sourceIndex = 0; ///< into Program::sources
  bool guardNegated = false;
  Space space = Space::Generic;
  std::uint8_t flags = 0;       ///< for the handler, set by its decoder
  std::uint8_t addressSize = 8; ///< bytes of the address register's row: 4 or 8
};
static_assert(sizeof(Op) == 64);

} // namespace tally::emulator

#endif
