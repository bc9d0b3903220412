// Finds the file that the kernel executes for a command, and whether the loader will preload a
// library into it. Executes nothing.
#ifndef TALLY_LAUNCHER_COMMAND_FILE_H
#define TALLY_LAUNCHER_COMMAND_FILE_H

#include <optional>
#include <string>
#include <string_view>
#include <sys/stat.h>

namespace tally::launcher {

/// Returns the file that execvp(3) takes for a word: a path as it is, else the first executable
/// file in the folders of `path`. Nullopt where there is none.
std::optional<std::string> findCommand(std::string_view word, std::string_view path);

/// Returns the file of the program that finally runs: a script's interpreter in place of the
/// script, and the program that `env` starts in place of `env`. Nullopt where a file is missing.
std::optional<std::string> findProgram(std::string_view word, std::string_view path);

/// The identity that runs a program, as far as set-user-ID files depend on it.
struct Identity {
  uid_t user = 0;
  gid_t group = 0;
  bool gainsNothing = false; ///< no_new_privs: set-user-ID files give no rights
};
Identity ownIdentity();

/// Whether a program with these rights runs in secure mode (AT_SECURE), in which the loader ignores
/// LD_PRELOAD. `hasCapabilities`: the file itself has capabilities (capabilities(7)).
bool runsSecurely(const struct stat &facts, bool hasCapabilities, const Identity &identity);

/// Why no library can be preloaded into a program.
struct Obstacle {
  std::string reason; ///< continues a sentence that begins with the program's name
  /// Whether LD_PRELOAD would end the program, or its loader complain. Otherwise LD_PRELOAD has no
  /// effect on this program and still serves the programs that it starts.
  bool hurts = false;
};
/// Returns the obstacle for the program at `path`; nullopt where a library can be preloaded or the
/// file cannot be read.
std::optional<Obstacle> preloadObstacle(const std::string &path);

} // namespace tally::launcher

#endif
