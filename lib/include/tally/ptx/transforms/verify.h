// Checks variants against what every pass promises: --verify-each.
#ifndef TALLY_PTX_TRANSFORMS_VERIFY_H
#define TALLY_PTX_TRANSFORMS_VERIFY_H

#include "tally/ptx/transforms/rewriter.h"

#include <optional>
#include <string>

namespace tally::ptx {

/// Parses the module with its variants again and checks that
///
/// * the user's text is unchanged, and each variant has the user's parameters at the user's offsets
///   and then tally's;
/// * each statement of the user's stands in each variant and each clone, in order and verbatim but
///   for what must differ: reads of grid registers, given a value that was set right before; calls
///   of functions with clones; in a worker's body ret and exit, and barriers that threads which
///   have left take part in;
/// * nothing that a variant can reach by calls reads a physical grid register, through pointers
///   neither, and the guard's first entry calls no clone;
/// * a worker's body has no way out that leads elsewhere than to the loop's head;
/// * the control word is read by a strong load, and the persistent loop meets in a form of barrier
///   that may be reached in parts, with no copy in flight;
/// * a poll of pause in a loop writes nothing but tally's registers, reads the control word's mode
///   by a strong load each time that it has napped, goes on behind itself when that is not PAUSE,
///   and branches back only where the user's branch behind it would;
/// * a worker of pause that stays when no block is left has a strong load tell it to leave, where
///   no other is live and where its epoch has passed, naps between two looks, and keeps all its
///   threads.
///
/// Returns what is broken, a bug of ours, or nothing.
std::optional<std::string> verifyVariants(const Module &module,
                                          const std::vector<RewrittenKernel> &kernels);

} // namespace tally::ptx

#endif
