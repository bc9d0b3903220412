// Functions that a loaded library exports, led elsewhere: for each object that looks them up from
// now on, and for each that is bound to them already. The library's file is not touched.
#ifndef TALLY_LIB_RUNTIME_REDIRECTED_EXPORTS_H
#define TALLY_LIB_RUNTIME_REDIRECTED_EXPORTS_H

#include "tally/support/result.h"

#include <functional>
#include <string_view>

namespace tally::runtime {

/// Gives the function to be found instead of `function`, which a library exports as `name`, or
/// `function` itself.
using Replacement = std::function<void *(std::string_view name, void *function)>;

/// Asks `replacement` for each function that `library`, a handle of dlopen, exports, and leads the
/// replaced ones elsewhere:
/// - the library's symbol table, by which every later lookup is answered (dlsym of any object, the
///   relocation of objects that are loaded later, lazy binding),
/// - the offset tables of all other objects of the namespace that are bound to them.
/// A pointer that a program has copied out of these is not found. `ready` is called when
/// `replacement` was asked for all and nothing is changed yet. An error may leave a part as it was.
/// The library must stay loaded. Two threads must not be in it at once. (System V ABI, "Dynamic
/// Linking".)
Result<void> redirectExports(void *library, const Replacement &replacement,
                             const std::function<void()> &ready);

/// How many objects of the namespace have that DT_SONAME.
unsigned objectsNamed(std::string_view soname);

/// Whether an object of the namespace names that library among those that it needs.
bool isNeeded(std::string_view soname);

} // namespace tally::runtime

#endif
