// Checks the polls inside a body, and the end of a worker: see verifyVariants.
#ifndef TALLY_LIB_PTX_TRANSFORMS_VERIFY_POLLS_H
#define TALLY_LIB_PTX_TRANSFORMS_VERIFY_POLLS_H

#include "tally/ptx/ir/module.h"

#include <optional>
#include <string>

namespace tally::ptx {

/// Checks the polls in the body of `variant`, a pause variant of `user`, which has at least one.
/// Returns the broken rule.
std::optional<std::string> checkPolls(const Function &user, const Function &variant);

/// Checks how a worker of `variant` stays until others have ended, if it does.
std::optional<std::string> checkStay(const Function &variant);

} // namespace tally::ptx

#endif
