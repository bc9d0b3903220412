#include "device/driver_exports.h"

namespace tally::runtime {

std::atomic<const DriverExports *> tallySharedDriver1{nullptr};

} // namespace tally::runtime

// A unique symbol for the loader, as g++ makes inline variables, so that modules loaded with
// RTLD_LOCAL share it too. It is no inline variable, since two objects of the installed archive use
// it, and a linker that takes both needs one definition (lld does so where a program embeds the
// runtime and has the hooks). clang has no unique variables; there modules share the variable only
// within the loader's scope.
#ifndef __clang__
__asm__(".type _ZN5tally7runtime18tallySharedDriver1E, %gnu_unique_object");
#endif
