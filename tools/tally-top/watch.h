// Looks at the arenas repeatedly and writes the output of tally-top and `tally status`.
#ifndef TALLY_TOP_WATCH_H
#define TALLY_TOP_WATCH_H

#include "options.h"

#include <string>

namespace tally::top {

/// Writes the output that `options` ask for to standard output; returns after one interval with
/// --once or for Prometheus. Fails where there is no arena, or standard output cannot be written.
Result<void> watch(const Options &options);

/// Writes to standard output without delay; false where that fails.
bool writeOut(const std::string &text);

} // namespace tally::top

#endif
