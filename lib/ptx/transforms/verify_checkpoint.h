// What holds of every checkpoint entry.
#ifndef TALLY_LIB_PTX_TRANSFORMS_VERIFY_CHECKPOINT_H
#define TALLY_LIB_PTX_TRANSFORMS_VERIFY_CHECKPOINT_H

#include "tally/ptx/ir/module.h"

#include <optional>
#include <string>

namespace tally::ptx {

/// Checks that at each point of `variant`
///
/// * nothing is stored before the whole control word has been read again, strongly;
/// * every register of the user's that lives where a restored thread goes on has been given a value
///   on the way there (liveness of the entry as it is written, which the pass has not seen);
///
/// and that the block meets before its shared memory is copied out, behind its copies in flight,
/// and before a restored block goes on; that tally's own block barriers are in the form that
/// promises nothing of the warp, and the user's too where a loop has two ways in. Returns what is
/// broken.
std::optional<std::string> checkCheckpoint(const Function &user, const Function &variant);

} // namespace tally::ptx

#endif
