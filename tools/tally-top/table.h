// Prints frames for people.
#ifndef TALLY_TOP_TABLE_H
#define TALLY_TOP_TABLE_H

#include "frame.h"

namespace tally::top {

/// Returns a paragraph for each arena, a line for each client; times in microseconds, '-' where
/// there is no value.
std::string toTable(std::span<const ArenaFrame> frames);

} // namespace tally::top

#endif
