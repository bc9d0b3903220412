// The file of a command: what the kernel executes for it, and whether the loader will preload a
// library into that. Nothing is executed.
#ifndef TALLY_LAUNCHER_COMMAND_FILE_H
#define TALLY_LAUNCHER_COMMAND_FILE_H

#include <optional>
#include <string>
#include <string_view>
#include <sys/stat.h>

namespace tally::launcher {

/// The file that execvp(3) takes for a word: a path as it is, else the first file in the folders of
/// `path` that may be executed. Nothing where there is none.
std::optional<std::string> findCommand(std::string_view word, std::string_view path);

/// The file of the program that runs in the end: a script's interpreter in place of the script, and
/// what `env` starts in place of that. Nothing where a file is missing.
std::optional<std::string> findProgram(std::string_view word, std::string_view path);

/// Who runs a program, as far as set-user-ID files matter.
struct Identity {
  uid_t user = 0;
  gid_t group = 0;
  bool gainsNothing = false; ///< no_new_privs: such files give no rights
};
Identity ownIdentity();

/// Whether a program of these rights runs in secure mode (AT_SECURE), in which the loader ignores
/// LD_PRELOAD. `hasCapabilities`: the file itself has some (capabilities(7)).
bool runsSecurely(const struct stat &facts, bool hasCapabilities, const Identity &identity);

/// Why no library can be preloaded into a program.
struct Obstacle {
  std::string reason; ///< to stand behind the program's name
  /// Whether LD_PRELOAD would end the program, or its loader complain; otherwise it has no effect
  /// here, and is there for the programs that this one starts.
  bool hurts = false;
};
/// Of the program at `path`; nothing where a library can be preloaded, and of files that cannot be
/// read.
std::optional<Obstacle> preloadObstacle(const std::string &path);

} // namespace tally::launcher

#endif
