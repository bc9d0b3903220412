// Checks variants against what every pass promises: --verify-each.
#ifndef TALLY_PTX_TRANSFORMS_VERIFY_H
#define TALLY_PTX_TRANSFORMS_VERIFY_H

#include "tally/ptx/transforms/rewriter.h"

#include <optional>
#include <string>

namespace tally::ptx {

/// Parses the module with its variants again and checks that the user's text is unchanged; that
/// each variant has the user's parameters at the user's offsets and then tally's; and that no
/// grid register is read where a virtual one must be. Returns what is broken, a bug of ours, or
/// nothing.
std::optional<std::string> verifyVariants(const Module &module,
                                          const std::vector<RewrittenKernel> &kernels);

} // namespace tally::ptx

#endif
