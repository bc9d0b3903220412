// Statement by statement: is a variant's body the user's, but for what must differ?
#ifndef TALLY_LIB_PTX_TRANSFORMS_VERIFY_BODY_H
#define TALLY_LIB_PTX_TRANSFORMS_VERIFY_BODY_H

#include "tally/ptx/ir/module.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace tally::ptx {

/// What of the user's statements may stand changed in a rewritten body.
struct AllowedChanges {
  bool gridReads = false; ///< operands that read grid registers, given in a register just set
  bool calls = false;     ///< of functions with clones, which an alias gives its own name
  bool leaves = false; ///< ret and exit: they lead to the loop's head, and none is left but tally's
  bool unaligned = false; ///< block barriers in the form that promises nothing of the warp
  bool entrances = false; ///< branches to a loop's head, which lead to what stands before it
  bool barriers = false;  ///< full-block ones, which threads that have left take part in
};

/// Whether a register or label is one of those that emit.h makes.
inline bool isOwnName(std::string_view name) {
  return name.starts_with("%tally_") || name.starts_with("$tally_");
}

/// Where the label of that name stands in the function's body.
std::optional<std::size_t> labelOf(const Function &function, std::string_view name);

/// Checks that every statement of `user` stands in `rewritten`, in order and verbatim but for the
/// changes allowed, and that no grid register is read but by tally's own. What `rewritten` holds
/// besides is tally's. `module` says what is an alias. Returns what is broken.
std::optional<std::string> checkBody(const Module &module, const Function &user,
                                     const Function &rewritten, const AllowedChanges &allowed);

} // namespace tally::ptx

#endif
