// Compares a variant's body with the user's, statement by statement, except for the necessary
// changes.
#ifndef TALLY_LIB_PTX_TRANSFORMS_VERIFY_BODY_H
#define TALLY_LIB_PTX_TRANSFORMS_VERIFY_BODY_H

#include "tally/ptx/ir/module.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace tally::ptx {

/// The changes of the user's statements that a rewritten body may have.
struct AllowedChanges {
  bool gridReads = false; ///< operands that read grid registers become registers that were just set
  bool calls = false;     ///< calls of functions with clones; an alias becomes its function's name
  bool leaves = false; ///< ret and exit lead to the loop's head; only tally's own ret and exit stay
  bool unaligned = false; ///< block barriers in the form that promises nothing about the warp
  bool entrances = false; ///< branches to a loop's head lead to tally's code before it
  bool barriers = false;  ///< full-block barriers in which threads that have left take part
};

/// Whether a register or label is a name of emit.h.
inline bool isOwnName(std::string_view name) {
  return name.starts_with("%tally_") || name.starts_with("$tally_");
}

/// Returns the index of the label in the function's body.
std::optional<std::size_t> labelOf(const Function &function, std::string_view name);

/// Checks that every statement of `user` is in `rewritten`, in order and verbatim except for the
/// allowed changes, and that only tally's statements read grid registers. All other statements of
/// `rewritten` are tally's. `module` resolves aliases. Returns the broken rule.
std::optional<std::string> checkBody(const Module &module, const Function &user,
                                     const Function &rewritten, const AllowedChanges &allowed);

} // namespace tally::ptx

#endif
