// Checks of memory accesses, shared by loads, stores and atomics.
#ifndef TALLY_LIB_EMULATOR_ACCESS_H
#define TALLY_LIB_EMULATOR_ACCESS_H

#include "warp.h"

namespace tally::emulator {

enum class AccessKind : std::uint8_t { Read, Write, ReadWrite };

/// The range of a warp's addresses and the OR of them.
struct Accessed {
  std::uint64_t least, most, bits;
};

/// Returned in place of a bias when the lanes' host pointers are in `host`.
inline constexpr std::uint64_t perLane = ~std::uint64_t{0};

/// Checks bounds and alignment of an access to the op's space and informs the watch. On success
/// `bias` is the number to add to every lane's address, or it is perLane and `host` holds pointers.
/// On a fault, which names the first faulty lane, returns false.
bool checkAccess(Warp &warp, const Op &op, std::uint32_t mask, std::uint32_t bytes, AccessKind kind,
                 const Accessed &accessed, std::uint64_t *host, std::uint64_t &bias);

/// The same, beginning with the op's address operand; for handlers outside the vector folder.
bool resolveAddresses(Warp &warp, const Op &op, std::uint32_t mask, std::uint32_t bytes,
                      AccessKind kind, std::uint64_t *host);

/// Returns the host address of `bytes` from `address` on, checked as an access by one lane; for
/// copies of more than a register. Requires no alignment. 0 after a fault.
std::uint64_t hostRange(Warp &warp, const Op &op, std::uint32_t lane, Space space,
                        std::uint64_t address, std::uint32_t bytes, AccessKind kind);

/// Whether `space` holds the generic address, for isspacep.
bool liesInWindow(std::uint64_t address, std::uint64_t window);

} // namespace tally::emulator

#endif
