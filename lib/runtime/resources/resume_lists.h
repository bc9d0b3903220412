// The lists of blocks that guards leave: the memory into which the next launch writes its list, and
// the list from which the oldest launch is resumed.
#ifndef TALLY_LIB_RUNTIME_RESOURCES_RESUME_LISTS_H
#define TALLY_LIB_RUNTIME_RESOURCES_RESUME_LISTS_H

#include "base/list_ring.h"

#include <optional>
#include <utility>
#include <vector>

namespace tally::runtime {

/// For the dispatcher's thread.
class ResumeLists {
public:
  /// The ring for launches on the lane's stream, or, while it waits, on the stream for resumed
  /// ones.
  ListRing &ring(bool isHeld) { return isHeld ? resumed : usual; }

  /// Keeps the region until the launch that reads it is over.
  void retain(std::optional<ListRing::Region> region, bool isHeld) {
    retained = region;
    retainedIn = &ring(isHeld);
  }
  void releaseRetained() {
    if (retained)
      retainedIn->releaseOldest(*retained);
    retained.reset();
  }
  bool isRetaining() const { return retained.has_value(); }
  /// Address of the retained list; only while isRetaining().
  DevicePtr retainedAddress() const { return retainedIn->address(*retained); }
  /// Gives back all regions of the ring but the retained region and `kept`, which are in order.
  void keepOnly(std::vector<ListRing::Region> kept, bool isHeld) {
    if (retained && retainedIn == &ring(isHeld))
      kept.insert(kept.begin(), *retained);
    ring(isHeld).keepOnly(std::move(kept));
  }

private:
  ListRing usual, resumed;
  std::optional<ListRing::Region> retained;
  ListRing *retainedIn = nullptr; // the ring of `retained`
};

} // namespace tally::runtime

#endif
