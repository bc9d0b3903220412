// The environment that a command is started with.
#ifndef TALLY_LAUNCHER_LAUNCH_ENVIRONMENT_H
#define TALLY_LAUNCHER_LAUNCH_ENVIRONMENT_H

#include "command_line.h"

#include <map>
#include <string>
#include <string_view>

namespace tally::launcher {

using Variables = std::map<std::string, std::string, std::less<>>;

/// This process's variables.
Variables currentVariables();

/// The settings of the launcher's options over those in `variables`. Without --best-effort the
/// class is that of `variables`, so that what a best-effort command starts by `tally run` is best
/// effort too; high priority where they have none.
Variables settingsFor(const RunOptions &options, const Variables &variables);

/// Has Triton compile by the programs in `folder`, so that its kernels get variants. The ptxas that
/// `variables` name for it is called by these.
Variables tritonBy(std::string_view folder, const Variables &variables);

/// LD_PRELOAD with `library` in front of what `before` names. A `before` that names it already
/// stays as it is; other libraries of the same file name, which belong to another Tally, are left
/// out.
std::string preloadWith(std::string_view library, std::string_view before);

} // namespace tally::launcher

#endif
