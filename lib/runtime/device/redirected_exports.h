// Redirects functions that a loaded library exports, both for objects that look them up from now on
// and for objects that are bound to them already. The library's file is not changed.
#ifndef TALLY_LIB_RUNTIME_DEVICE_REDIRECTED_EXPORTS_H
#define TALLY_LIB_RUNTIME_DEVICE_REDIRECTED_EXPORTS_H

#include "tally/support/result.h"

#include <functional>
#include <string_view>
#include <vector>

namespace tally::runtime {

/// Returns the function that replaces `function`, which a library exports as `name`; or `function`
/// itself.
using Replacement = std::function<void *(std::string_view name, void *function)>;

struct Redirected {
  void *from, *to;
};

/// Calls `replacement` for each function that `library`, a handle of dlopen, exports, and redirects
/// the replaced functions in two places:
/// - the library's symbol table, which answers every later lookup (dlsym of any object, the
///   relocation of objects that are loaded later, lazy binding),
/// - the offset tables of all other objects of the namespace that are bound to these functions.
/// Calls `ready` after the last call of `replacement`, before anything is changed. After an error a
/// part may be unchanged. The library must stay loaded. Only one thread may call this at a time.
/// (System V ABI, "Dynamic Linking".)
Result<std::vector<Redirected>> redirectExports(void *library, const Replacement &replacement,
                                                const std::function<void()> &ready);

/// Replaces copies of these functions' addresses in the variables of all objects of the namespace,
/// except `library` and the object that contains this code.
void redirectCopies(void *library, const std::vector<Redirected> &functions);

/// Whether memory that belongs to no object (allocated memory or a thread's stack) contains the
/// address of a function that `library` exports and for which isMeant() is true. Call this before
/// redirectExports(), which keeps such addresses itself.
bool hasAllocatedCopies(void *library, bool (*isMeant)(std::string_view name));

/// The number of objects of the namespace with this DT_SONAME.
unsigned objectsNamed(std::string_view soname);

} // namespace tally::runtime

#endif
