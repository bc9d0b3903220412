// Words that are claimed once: hash tables and lists that are filled by compare-and-swap.
#ifndef TALLY_LIB_PTX_ANALYSIS_CLAIMS_H
#define TALLY_LIB_PTX_ANALYSIS_CLAIMS_H

#include "definitions.h"

#include "llvm/ADT/ArrayRef.h"

#include <cstdint>
#include <vector>

namespace tally::ptx {

/// A loop and its reads of what other blocks write.
struct LoopReads {
  Loop loop;
  std::vector<std::uint32_t> reads; ///< in source order
};

/// Whether no write of the kernel, by whichever block, can end a loop of `loops` that its block
/// does not end alone. `writes` are all that may reach what the loops read.
///
/// Shown where all of both are claims: atom.cas of one width whose comparand is one constant E, and
/// each of those in a loop leaves that loop when it succeeds, at addresses that the loop goes over.
/// A loop that goes on fails at every claim, so what it looks at is not E; and a word that is not E
/// is changed by no claim any more. So nothing that others do changes what it sees. Writes to other
/// members of the elements that are claimed (congruence.h) do not matter.
bool areClaims(const Cfg &cfg, const Definitions &whole, llvm::ArrayRef<LoopReads> loops,
               llvm::ArrayRef<std::uint32_t> writes);

} // namespace tally::ptx

#endif
