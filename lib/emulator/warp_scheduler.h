// Moves lanes between groups, groups through a warp, and warps through a block.
#ifndef TALLY_LIB_EMULATOR_WARP_SCHEDULER_H
#define TALLY_LIB_EMULATOR_WARP_SCHEDULER_H

#include "warp.h"

#include <cstdint>

namespace tally::emulator {

/// Unwritten memory holds this byte, so that a kernel's reliance on it shows.
inline constexpr std::byte unwrittenByte{0xA5};

/// Chooses the warp, the group and the quantum. A generator for any seed but 0.
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

// For handlers. All act on the running group; `mask` is a part of it.

/// Sends the lanes to `pc`. Returns Status::Jump when they are the whole group.
Status moveLanes(Warp &warp, std::uint32_t mask, std::uint32_t pc);
/// Gives the lanes their own group, ready at `pc`; the other lanes stay the running group.
void splitLanes(Warp &warp, std::uint32_t mask, std::uint32_t pc);
/// Moves the lanes from the running group to a group as described.
Status replaceLanes(Warp &warp, std::uint32_t mask, const Group &group);
/// Ends the lanes. Barriers and warp operations no longer expect them.
Status retireLanes(Warp &warp, std::uint32_t mask);

/// Checks barriers that may be complete now that they expect fewer threads; barriers.cpp.
void recheckBarriers(Block &block);
/// The same for warp operations; warp_ops.cpp.
void recheckSync(Warp &warp);
/// Lets lanes that wait at an aligned barrier arrive if they are now all lanes of their warp;
/// barriers.cpp. Returns false after a fault.
bool recheckAligned(Warp &warp);

enum class BlockState : std::uint8_t { Running, Finished, Faulted };

} // namespace tally::emulator

#endif
