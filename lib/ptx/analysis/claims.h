// Words that are claimed once: hash tables and lists filled by compare-and-swap.
#ifndef TALLY_LIB_PTX_ANALYSIS_CLAIMS_H
#define TALLY_LIB_PTX_ANALYSIS_CLAIMS_H

#include "definitions.h"

#include "llvm/ADT/ArrayRef.h"

#include <cstdint>
#include <vector>

namespace tally::ptx {

/// A loop and its reads of memory that other blocks write.
struct LoopReads {
  Loop loop;
  std::vector<std::uint32_t> reads; ///< in source order
};

/// Whether no write of the kernel, by any block, can end a loop of `loops` that would not end when
/// its block runs alone. `writes` are all writes that may reach the words that the loops read.
///
/// Shown where all reads and writes are claims: atom.cas of one width whose comparand is one
/// constant E; each claim in a loop leaves that loop when it succeeds, and the loop changes its
/// address. In a loop that continues every claim fails, so the words that it reads are not E; and
/// no claim changes a word that is not E. So no write of another block changes what the loop sees.
/// Writes to other members of the claimed elements (congruence.h) do not matter.
bool areClaims(const Cfg &cfg, const Definitions &whole, llvm::ArrayRef<LoopReads> loops,
               llvm::ArrayRef<std::uint32_t> writes);

} // namespace tally::ptx

#endif
