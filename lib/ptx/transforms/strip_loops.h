// Loops cut into strips (StripLoop): an inner loop of several turns, which cost the same as before,
// and around it the user's branch back to the header, where the next strip begins.
#ifndef TALLY_LIB_PTX_TRANSFORMS_STRIP_LOOPS_H
#define TALLY_LIB_PTX_TRANSFORMS_STRIP_LOOPS_H

#include "tally/ptx/analysis/poll_sites.h"
#include "tally/ptx/transforms/editor.h"

#include <cstddef>
#include <string>

namespace tally::ptx {

/// Returns `.reg` declarations for the loop with this number.
std::string stripDeclarations(const StripLoop &strip, std::size_t number);

/// Stands behind the header's label and behind the code that runs before each strip. It has
/// `$tally_strip_N`, where a strip begins, and `$tally_go_N`, the head of the inner loop. It
/// changes no user register.
std::string stripBegin(const Function &function, const StripLoop &strip, std::size_t number);

/// Makes the strip end with the loop, for a thread that skips the begin of a strip; the user's
/// registers are set.
std::string stripToTheEnd(const Function &function, const StripLoop &strip, std::size_t number);

/// For the place StripLoop::turnsAt: the branch back to `$tally_go_N` while the strip lasts.
std::string stripTurn(const Function &function, const StripLoop &strip, std::size_t number);

} // namespace tally::ptx

#endif
