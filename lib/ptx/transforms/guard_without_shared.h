// guard without a shared variable of tally's; docs/design/transforms.md, "Codings", gives the
// conditions.
#ifndef TALLY_LIB_PTX_TRANSFORMS_GUARD_WITHOUT_SHARED_H
#define TALLY_LIB_PTX_TRANSFORMS_GUARD_WITHOUT_SHARED_H

#include "tally/ptx/transforms/pass.h"

#include <string>
#include <vector>

namespace tally::ptx {

/// Returns both entries. Every thread polls, and a barrier reduction makes one decision. The resume
/// entry reads and divides its block's id at each use of %ctaid. Only for a kernel with
/// KernelAnalysis::mayAvoidShared.
std::vector<EditedText> guardWithoutShared(const PassInput &input);

} // namespace tally::ptx

#endif
