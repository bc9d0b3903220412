// Checks the promises of the passes on their variants: --verify-each.
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
/// * each statement of the user stands in each variant and each clone, in order and verbatim,
///   except for the necessary changes: reads of grid registers become reads of a value set right
///   before; calls of functions with clones; in a worker's body ret and exit, and barriers in which
///   threads that have left take part;
/// * no code that a variant can reach by calls, through pointers too, reads a physical grid
///   register, and the guard's first entry calls no clone;
/// * every exit from a worker's body leads to the loop's head;
/// * a strong load reads the control word, and the persistent loop meets at a form of barrier that
///   threads of a warp may reach apart, with no copy in flight;
/// * a poll of pause in a loop writes only tally's registers, reads the control word's mode by a
///   strong load after each nap, continues behind itself when the mode is not PAUSE, and branches
///   back only where the user's branch behind it would;
/// * a worker of pause that stays when no block is left leaves by a strong load: where no other
///   worker is live, and where its epoch has passed. It naps between two looks and keeps all its
///   threads.
///
/// Returns a description of the broken promise, which is a bug of tally, or nothing.
std::optional<std::string> verifyVariants(const Module &module,
                                          const std::vector<RewrittenKernel> &kernels);

} // namespace tally::ptx

#endif
