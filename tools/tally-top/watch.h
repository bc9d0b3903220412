// The looks at the arenas, one after another: what tally-top and `tally status` write.
#ifndef TALLY_TOP_WATCH_H
#define TALLY_TOP_WATCH_H

#include "options.h"

#include <string>

namespace tally::top {

/// Writes to standard output what `options` ask for; returns after one interval where they say once
/// or Prometheus. Fails where there is no arena, or standard output cannot be written.
Result<void> watch(const Options &options);

/// Writes to standard output at once; false where that fails.
bool writeOut(const std::string &text);

} // namespace tally::top

#endif
