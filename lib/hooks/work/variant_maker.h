// Starts short-lived processes of tools/tally-variants that make variants of code which the program
// has loaded. The program does not wait for them.
#ifndef TALLY_LIB_HOOKS_WORK_VARIANT_MAKER_H
#define TALLY_LIB_HOOKS_WORK_VARIANT_MAKER_H

#include <string>
#include <string_view>

namespace tally::hooks {

/// Starts making variants of PTX, or of a container with PTX, for the image with that key. Returns
/// false where they cannot be made.
bool startMaking(const std::string &store, const std::string &key, std::string_view source);
/// Starts making variants of the code in Triton's caches.
bool startMakingOfCaches();

} // namespace tally::hooks

#endif
