// Functions that a loaded library exports, led elsewhere: for each object that looks them up from
// now on, and for each that is bound to them already. The library's file is not touched.
#ifndef TALLY_LIB_RUNTIME_DEVICE_REDIRECTED_EXPORTS_H
#define TALLY_LIB_RUNTIME_DEVICE_REDIRECTED_EXPORTS_H

#include "tally/support/result.h"

#include <functional>
#include <string_view>
#include <vector>

namespace tally::runtime {

/// Gives the function to be found instead of `function`, which a library exports as `name`, or
/// `function` itself.
using Replacement = std::function<void *(std::string_view name, void *function)>;

struct Redirected {
  void *from, *to;
};

/// Asks `replacement` for each function that `library`, a handle of dlopen, exports, and leads the
/// replaced ones elsewhere:
/// - the library's symbol table, by which every later lookup is answered (dlsym of any object, the
///   relocation of objects that are loaded later, lazy binding),
/// - the offset tables of all other objects of the namespace that are bound to them.
/// `ready` is called when `replacement` was asked for all and nothing is changed yet. An error may
/// leave a part as it was. The library must stay loaded. Two threads must not be in it at once.
/// (System V ABI, "Dynamic Linking".)
Result<std::vector<Redirected>> redirectExports(void *library, const Replacement &replacement,
                                                const std::function<void()> &ready);

/// Replaces what objects of the namespace have copied of these functions' addresses into their
/// variables, but for `library` and the object that this code is in.
void redirectCopies(void *library, const std::vector<Redirected> &functions);

/// Whether an address of a function that `library` exports and `isMeant` names lies in memory that
/// is no object's: in what was allocated, or on a thread's stack. To be called before
/// redirectExports, which keeps such addresses itself.
bool hasAllocatedCopies(void *library, bool (*isMeant)(std::string_view name));

/// How many objects of the namespace have that DT_SONAME.
unsigned objectsNamed(std::string_view soname);

} // namespace tally::runtime

#endif
