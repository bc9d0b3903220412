// How lanes move between groups, groups through a warp, and warps through a block.
#ifndef TALLY_LIB_EMULATOR_WARP_SCHEDULER_H
#define TALLY_LIB_EMULATOR_WARP_SCHEDULER_H

#include "warp.h"

#include <cstdint>

namespace tally::emulator {

/// Memory that nothing has written holds this byte, so that a kernel's reliance on it shows.
inline constexpr std::byte unwrittenByte{0xA5};

/// What picks the warp, the group and the quantum. A generator for any seed but 0.
class Chooser {
public:
  explicit Chooser(std::uint64_t seed) : state(seed), isRandom(seed != 0) {}
  bool random() const { return isRandom; }
  /// A number below `bound` (>= 1); splitmix64.
  std::uint32_t below(std::uint32_t bound) {
    state += 0x9e3779b97f4a7c15u;
    std::uint64_t z = state;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return static_cast<std::uint32_t>(((z ^ z >> 31) >> 32) * bound >> 32);
  }

private:
  std::uint64_t state;
  bool isRandom;
};

// For handlers. All act on the running group, of which `mask` is a part.

/// Sends the lanes to `pc`. Status::Jump when that is all of the group.
Status moveLanes(Warp &warp, std::uint32_t mask, std::uint32_t pc);
/// Gives the lanes a group of their own, ready at `pc`; the rest stays the running group.
void splitLanes(Warp &warp, std::uint32_t mask, std::uint32_t pc);
/// Takes the lanes out of the running group and puts them into a group as described.
Status replaceLanes(Warp &warp, std::uint32_t mask, const Group &group);
/// Ends the lanes. Barriers and warp operations no longer expect them.
Status retireLanes(Warp &warp, std::uint32_t mask);

/// Barriers that may be complete now that fewer threads are expected; barriers.cpp.
void recheckBarriers(Block &block);
/// Warp operations likewise; warp_ops.cpp.
void recheckSync(Warp &warp);
/// Lanes that wait at an aligned barrier and are now all of their warp arrive; barriers.cpp.
/// False after a fault.
bool recheckAligned(Warp &warp);

enum class BlockState : std::uint8_t { Running, Finished, Faulted };

} // namespace tally::emulator

#endif
