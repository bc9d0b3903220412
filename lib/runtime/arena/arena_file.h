// The arena's file: where it lies, and how it is made, opened and checked.
//
// A file gets its name only when it is whole: it is written under a name of its own beside the
// place, with its owner and mode, and then linked to the place, which fails where another process
// was faster. So nobody ever sees an unfinished one, at whatever instruction its maker dies; what
// such a death leaves is a file "<path>.new-<random>" that nobody reads.
//
// Whatever else may lie at the place is wrong input: symbolic links, other kinds of file, other
// sizes and versions, another GPU's arena, another user's file. It is neither repaired nor removed.
#ifndef TALLY_LIB_RUNTIME_ARENA_ARENA_FILE_H
#define TALLY_LIB_RUNTIME_ARENA_ARENA_FILE_H

#include "tally/runtime/runtime.h"
#include "tally/support/result.h"

#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>

namespace tally::runtime {

struct ArenaPlace {
  std::string path;
  std::string uuid;
  std::optional<gid_t> group; ///< whose members may open it, where it is not the user's alone
  bool isShared = false; ///< in /dev/shm, where any user may have put a file: owners are checked
};

/// The place for a GPU: from the options, else from TALLY_ARENA and TALLY_ARENA_GROUP, else the
/// user's (or group's) own in /dev/shm. A path that names a folder means a file of the GPU's name
/// in it, and tally-emulator for an emulator that has no UUID. Fails for other GPUs without a
/// usable UUID where the path depends on it, and for an unknown group.
Result<ArenaPlace> findArenaPlace(const ArenaOptions &options, std::string_view uuid);

/// Where arenas of any GPU lie: files in a folder whose names begin so, or, where `folder` is
/// empty, the one file `name`.
struct ArenaGlob {
  std::string folder, name;
};
Result<ArenaGlob> findArenaGlob(const ArenaOptions &options);

/// Whether the environment says that processes stay alone (TALLY_ARENA=off), and the options name
/// no path of their own.
bool isArenaOff(const ArenaOptions &options);

/// An open, checked file at the place, made where there is none. The caller closes it.
Result<int> openArenaFile(const ArenaPlace &place);

/// An existing arena of whatever GPU, to be read only. The caller closes it.
Result<int> openArenaFileToRead(const std::string &path);

/// "<path>: <what>: <words of errno>".
Error arenaFailure(const std::string &path, const char *what, int code);

} // namespace tally::runtime

#endif
