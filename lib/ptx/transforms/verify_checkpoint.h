// Properties of every checkpoint entry.
#ifndef TALLY_LIB_PTX_TRANSFORMS_VERIFY_CHECKPOINT_H
#define TALLY_LIB_PTX_TRANSFORMS_VERIFY_CHECKPOINT_H

#include "tally/ptx/ir/module.h"

#include <optional>
#include <string>

namespace tally::ptx {

/// Checks that at each point of `variant`
///
/// * it stores nothing before a strong load has read the whole control word again;
/// * every register of the user's that is live where a restored thread resumes has been set on the
///   path there (by liveness of the entry as written, independent of the pass);
///
/// It also checks that the block meets, behind its copies in flight, before its shared memory is
/// copied out, and before a restored block resumes; and that tally's own block barriers have the
/// form that promises nothing about the warp, and the user's barriers too where a loop has two
/// entrances. Returns the broken rule.
std::optional<std::string> checkCheckpoint(const Function &user, const Function &variant);

} // namespace tally::ptx

#endif
