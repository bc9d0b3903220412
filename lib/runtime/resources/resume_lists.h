// The lists of blocks that guards leave: where the next launch writes one, and the one that the
// oldest launch is resumed from.
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
  /// Of what goes on the lane's stream, or, while that waits, on the one for what is resumed.
  ListRing &ring(bool isHeld) { return isHeld ? resumed : usual; }

  /// The region stays until the launch that reads it is over.
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
  /// Of the retained one; only while there is one.
  DevicePtr retainedAddress() const { return retainedIn->address(*retained); }
  /// Gives back all of that ring but these, in their order, behind the retained one.
  void keepOnly(std::vector<ListRing::Region> kept, bool isHeld) {
    if (retained && retainedIn == &ring(isHeld))
      kept.insert(kept.begin(), *retained);
    ring(isHeld).keepOnly(std::move(kept));
  }

private:
  ListRing usual, resumed;
  std::optional<ListRing::Region> retained;
  ListRing *retainedIn = nullptr; // while there is one
};

} // namespace tally::runtime

#endif
