// The retry loop around an atom.cas that emulates another atomic: it waits for nobody.
#ifndef TALLY_LIB_PTX_ANALYSIS_CAS_RETRY_H
#define TALLY_LIB_PTX_ANALYSIS_CAS_RETRY_H

#include "loops.h"

#include "llvm/ADT/ArrayRef.h"

namespace tally::ptx {

/// Whether `loop`, whose reads of what other blocks write are `reads`, is such a retry: one
/// atom.cas on an address that the loop does not change, which every turn comes by; its comparand
/// is the value seen last, by the cas itself, by a load of the same word in the loop, or by
/// anything from before the loop; success leaves; nothing else in the loop writes memory that
/// blocks share. The loop goes round again only because another operation on the word came in
/// between, never because one is missing.
bool isCasRetry(const Cfg &cfg, const Loop &loop, llvm::ArrayRef<std::uint32_t> reads);

} // namespace tally::ptx

#endif
