// The way out of the body that threads take which stop one by one (joined_stops.h).
#ifndef TALLY_LIB_PTX_TRANSFORMS_VERIFY_JOINS_H
#define TALLY_LIB_PTX_TRANSFORMS_VERIFY_JOINS_H

#include "tally/ptx/ir/module.h"

#include <optional>
#include <string>

namespace tally::ptx {

/// Checks of `variant`, a checkpoint entry of `user`, if it has joins: that who stops at a poll
/// says so, and does nothing of the user's from there to where its block meets, join by join; that
/// nobody else says so, and everybody begins a block and goes on with one by saying the opposite,
/// so that a join leads nobody away who has not stopped. Returns what is broken.
std::optional<std::string> checkJoins(const Function &user, const Function &variant);

} // namespace tally::ptx

#endif
