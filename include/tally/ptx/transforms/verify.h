// Checks variants against what every pass promises: --verify-each.
#ifndef TALLY_PTX_TRANSFORMS_VERIFY_H
#define TALLY_PTX_TRANSFORMS_VERIFY_H

#include "tally/ptx/transforms/rewriter.h"

#include <optional>
#include <string>

namespace tally::ptx {

/// Parses the module with its variants again and checks that the user's text is unchanged; that
/// each variant has the user's parameters at the user's offsets and then tally's; that no grid
/// register is read where a virtual one must be; that the control word is read by a strong load; and
/// that the persistent loop meets, in a form that may be reached in parts, with no copy in flight. Returns what is broken, a bug of ours, or
/// nothing.
std::optional<std::string> verifyVariants(const Module &module,
                                          const std::vector<RewrittenKernel> &kernels);

} // namespace tally::ptx

#endif
