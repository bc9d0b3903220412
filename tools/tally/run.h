// `tally run`: replaces the launcher by a command, with the library preloaded into it.
#ifndef TALLY_LAUNCHER_RUN_H
#define TALLY_LAUNCHER_RUN_H

#include "command_line.h"

namespace tally::launcher {

/// Exit statuses, as in env(1) and nohup(1).
constexpr int exitLauncher = 125, exitNotExecutable = 126, exitNotFound = 127;

/// Prints "tally: error: ..." on standard error; returns the status.
int fail(const std::string &message, int status);

/// Runs the command in place of the launcher. Returns only where the command was not started: the
/// exit status.
int run(const RunOptions &options);

} // namespace tally::launcher

#endif
