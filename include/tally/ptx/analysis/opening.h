// How far a block may run before it decides whether it runs at all.
#ifndef TALLY_PTX_ANALYSIS_OPENING_H
#define TALLY_PTX_ANALYSIS_OPENING_H

#include "tally/ptx/ir/module.h"

#include <cstdint>

namespace tally::ptx {

/// The opening of an entry: what a block may execute and then leave, and again when it does it all.
/// It is the start of the entry's first block, and holds nothing but
///
/// * arithmetic and moves of parameters and of the thread's and block's ids: no clocks, no places
/// on
///   the device, no warp operations, nothing that is not known;
/// * a few plain loads of global memory whose addresses come from these, and nothing that reads
/// what
///   they loaded. So a load is one that the block executes in any case, at the same address: it
///   cannot fail where the user's would not, even while a kernel that it depends on has yet to be
///   resumed. What it finds then is thrown away.
///
/// Nothing in it writes anywhere but to registers, and nothing waits for what it loads.
struct Opening {
  std::uint32_t end = 1; ///< index of the first statement that is not in it; behind declarations
  unsigned loads = 0;    ///< of global memory
};

Opening openingOf(const Function &function);

} // namespace tally::ptx

#endif
