// Converts the addresses of a warp's access to host pointers, with all checks.
#ifndef TALLY_LIB_EMULATOR_VECTOR_RESOLVE_H
#define TALLY_LIB_EMULATOR_VECTOR_RESOLVE_H

#include "../access.h"
#include "lanes.h"

namespace tally::emulator::TALLY_EMULATOR_ISA {

/// Fills host[lane] for the lanes in the mask with the host address of the op's access of `bytes`
/// (a power of two, also the alignment). Returns false after a fault.
[[gnu::always_inline]] inline bool resolve(Warp &warp, const Op &op, std::uint32_t mask,
                                           std::uint32_t bytes, AccessKind kind,
                                           std::uint64_t *host) {
  auto offset = static_cast<std::uint64_t>(op.immediate);
  if (op.slot[4] == noSlot) {
    for (std::uint32_t i = 0; i < warpSize; ++i)
      host[i] = offset;
  } else if (op.addressSize == 8) {
    const std::uint64_t *address = warp.row<std::uint64_t>(op.slot[4]);
#pragma GCC ivdep
    for (std::uint32_t i = 0; i < warpSize; ++i)
      host[i] = address[i] + offset;
  } else {
    const std::uint32_t *address = warp.row<std::uint32_t>(op.slot[4]);
#pragma GCC ivdep
    for (std::uint32_t i = 0; i < warpSize; ++i)
      host[i] = static_cast<std::uint32_t>(address[i] + static_cast<std::uint32_t>(offset));
  }
  std::uint64_t first = host[__builtin_ctz(mask)];
  if (mask != fullMask) // idle lanes must not fail the checks below
    for (std::uint32_t i = 0; i < warpSize; ++i)
      host[i] = mask >> i & 1u ? host[i] : first;
  std::uint64_t least = first, most = first, bits = 0;
  for (std::uint32_t i = 0; i < warpSize; ++i) {
    // Valid addresses are far below 2^63; the checks below catch the others.
    auto address = static_cast<std::int64_t>(host[i]);
    least = address < static_cast<std::int64_t>(least) ? host[i] : least;
    most = address > static_cast<std::int64_t>(most) ? host[i] : most;
    bits |= host[i];
  }
  Accessed accessed{least, most, bits};
  std::uint64_t bias;
  if (!checkAccess(warp, op, mask, bytes, kind, accessed, host, bias))
    return false;
  if (bias != perLane)
#pragma GCC ivdep
    for (std::uint32_t i = 0; i < warpSize; ++i)
      host[i] += bias;
  return true;
}

} // namespace tally::emulator::TALLY_EMULATOR_ISA

#endif
