// --compile: the tool in front of a compiler.
#ifndef TALLY_TOOLS_PTXOPT_LAUNCHER_H
#define TALLY_TOOLS_PTXOPT_LAUNCHER_H

#include "options.h"

namespace tally::ptxopt {

/// Runs options.inputs, a compiler's command, and rewrites in place what it has made: objects, or a
/// program that was compiled and linked in one go. Returns the compiler's exit status where it is
/// not 0, else the tool's; a file that could not be rewritten is removed, as compilers do, so that
/// no build goes on with it.
int compile(const Options &options);

} // namespace tally::ptxopt

#endif
