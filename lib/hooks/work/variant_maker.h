// Starts what makes variants of code that the program has loaded: short-lived processes of
// tools/tally-variants, which nobody waits for.
#ifndef TALLY_LIB_HOOKS_WORK_VARIANT_MAKER_H
#define TALLY_LIB_HOOKS_WORK_VARIANT_MAKER_H

#include <string>
#include <string_view>

namespace tally::hooks {

/// Has variants made of PTX, or of a container with such, for the image with that key. False: they
/// cannot be made.
bool startMaking(const std::string &store, const std::string &key, std::string_view source);
/// The same of what Triton has left in its caches.
bool startMakingOfCaches();

} // namespace tally::hooks

#endif
