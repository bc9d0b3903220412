// The arena's file: its path, and how a process makes, opens and checks it.
//
// A file gets its final name only when it is complete: the maker writes it under a temporary name
// in the same folder, with its owner and mode, and then links it to the path, which fails if
// another process was faster. So no process sees an unfinished file, at whatever instruction the
// maker dies; a maker that dies leaves a file "<path>.new-<random>" that no process reads.
//
// Anything else at the path is wrong input: symbolic links, other kinds of file, other sizes and
// versions, another GPU's arena, another user's file. It is neither repaired nor removed, with one
// exception: an arena of an older version of which no process holds a slot is replaced.
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
  std::optional<gid_t> group; ///< group whose members may open the file; none: the user alone
  bool isShared = false; ///< the path is in /dev/shm, where any user may put a file: check owners
};

/// Finds the place for a GPU: from the options, else from TALLY_ARENA and TALLY_ARENA_GROUP, else
/// the user's (or group's) file in /dev/shm. A path that names a folder means a file in it named
/// after the GPU's UUID, or tally-emulator for a device without a UUID. Fails for an unknown group,
/// and where the path depends on a UUID that is not usable as a file name.
Result<ArenaPlace> findArenaPlace(const ArenaOptions &options, std::string_view uuid);

/// The arenas of all GPUs: the files in `folder` whose names begin with `name`; or, where `folder`
/// is empty, the file `name`.
struct ArenaGlob {
  std::string folder, name;
};
Result<ArenaGlob> findArenaGlob(const ArenaOptions &options);

/// Whether the environment turns arenas off (TALLY_ARENA=off) and the options name no path.
bool isArenaOff(const ArenaOptions &options);

/// Opens and checks the file at the place, and makes it where there is none. The caller closes it.
Result<int> openArenaFile(const ArenaPlace &place);

/// Opens an existing arena of any GPU for reading. The caller closes it.
Result<int> openArenaFileToRead(const std::string &path);

/// Error "<path>: the arena <what>: <message of the errno `code`>".
Error arenaFailure(const std::string &path, const char *what, int code);

} // namespace tally::runtime

#endif
