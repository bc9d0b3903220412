// The environment in which a command is started.
#ifndef TALLY_LAUNCHER_LAUNCH_ENVIRONMENT_H
#define TALLY_LAUNCHER_LAUNCH_ENVIRONMENT_H

#include "command_line.h"

#include <map>
#include <string>
#include <string_view>

namespace tally::launcher {

using Variables = std::map<std::string, std::string, std::less<>>;

/// Returns this process's variables.
Variables currentVariables();

/// Returns the settings of the launcher's options over the settings in `variables`. Without
/// --best-effort the class comes from `variables`, so that a `tally run` inside of a best-effort
/// command starts best-effort work too; high priority where `variables` have no class.
Variables settingsFor(const RunOptions &options, const Variables &variables);

/// Returns variables that make Triton compile with the programs in `folder`, so that its kernels
/// get variants. These programs call the ptxas that `variables` name for Triton.
Variables tritonBy(std::string_view folder, const Variables &variables);

/// Returns LD_PRELOAD with `library` in front of the libraries in `before`. A `before` that names
/// the library stays as it is; other libraries of the same file name, which belong to another
/// Tally, are left out.
std::string preloadWith(std::string_view library, std::string_view before);

} // namespace tally::launcher

#endif
