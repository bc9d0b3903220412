// Finds the library that is preloaded into commands.
#ifndef TALLY_LAUNCHER_PRELOAD_LIBRARY_H
#define TALLY_LAUNCHER_PRELOAD_LIBRARY_H

#include "tally/support/result.h"

#include <string>
#include <vector>

namespace tally::launcher {

/// Returns the folder of the launcher's own file; empty where /proc does not tell it.
std::string launcherFolder();

/// Returns the places to search, in order: $TALLY_PRELOAD_LIBRARY alone, if that is set; else
/// beside an installed launcher, and in the build tree if the launcher is the build tree's.
std::vector<std::string> preloadLibraryPlaces();

/// Returns the first place that has a file: an absolute path without symbolic links, since children
/// may run in other folders. The error names all places. A path that LD_PRELOAD cannot hold is an
/// error too.
Result<std::string> findPreloadLibrary();

} // namespace tally::launcher

#endif
