// --compile: runs a compiler and rewrites its output.
#ifndef TALLY_TOOLS_PTXOPT_LAUNCHER_H
#define TALLY_TOOLS_PTXOPT_LAUNCHER_H

#include "options.h"

namespace tally::ptxopt {

/// Runs options.inputs, a compiler's command, and rewrites its output in place: objects, or a
/// program that was compiled and linked in one command. Returns the compiler's exit status where it
/// is not 0, else the tool's. Removes a file that could not be rewritten, as compilers do, so that
/// no build goes on with it.
int compile(const Options &options);

} // namespace tally::ptxopt

#endif
