// guard without shared memory of tally's: see guard_pass.h, "Codings".
#ifndef TALLY_LIB_PTX_TRANSFORMS_GUARD_WITHOUT_SHARED_H
#define TALLY_LIB_PTX_TRANSFORMS_GUARD_WITHOUT_SHARED_H

#include "tally/ptx/transforms/pass.h"

#include <string>
#include <vector>

namespace tally::ptx {

/// Both entries. Every thread polls, and a reducing barrier makes one decision of it; the resume
/// entry reads and divides its block's id at each use of %ctaid. Only for a kernel whose analysis
/// says mayAvoidShared.
std::vector<EditedText> guardWithoutShared(const PassInput &input);

} // namespace tally::ptx

#endif
