// Prints frames for scripts.
#ifndef TALLY_TOP_JSON_H
#define TALLY_TOP_JSON_H

#include "frame.h"

namespace tally::top {

/// Returns one line: {"time":…,"arenas":[…]}. docs/guide/watch.md describes the fields. `time` is
/// in seconds since 1970.
std::string toJson(std::span<const ArenaFrame> frames, double time);

} // namespace tally::top

#endif
