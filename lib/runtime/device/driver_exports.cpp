#include "device/driver_exports.h"

namespace tally::runtime {

std::atomic<const DriverExports *> tallySharedDriver1{nullptr};

} // namespace tally::runtime

// Unique to the loader, as g++ makes inline variables: then modules that were loaded by RTLD_LOCAL
// share it too. It is none, since two objects of the installed archive use it, and a linker that
// takes both of them needs one definition (lld does so where a program embeds the runtime and has
// the hooks). clang knows no unique variables; there modules share what the loader's scope has.
#ifndef __clang__
__asm__(".type _ZN5tally7runtime18tallySharedDriver1E, %gnu_unique_object");
#endif
