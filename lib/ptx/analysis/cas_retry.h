// The retry loop around an atom.cas that emulates another atomic: it waits for nobody.
#ifndef TALLY_LIB_PTX_ANALYSIS_CAS_RETRY_H
#define TALLY_LIB_PTX_ANALYSIS_CAS_RETRY_H

#include "definitions.h"
#include "loops.h"

#include "llvm/ADT/ArrayRef.h"

namespace tally::ptx {

/// Whether `loop`, whose reads of what other blocks write are `reads`, is such a retry: one
/// atom.cas, which every turn comes by, on an address that is the same in each turn; its comparand
/// is the value seen last, by the cas itself or by a load of the same word in the loop, or in the
/// first turn by anything from before the loop; success leaves; nothing else in the loop writes
/// memory that blocks share. The loop goes round again only because another operation on the word
/// came in between, never because one is missing.
///
/// Also where success does not leave, if the new value is the same in each turn and the loop goes
/// on only while what the cas found is less than it, greater, or another one (leavesWhenExchanged):
/// in a memory that stands still one turn fails at most, the next stores the value, one finds it.
///
/// `whole` are the body's definitions.
bool isCasRetry(const Cfg &cfg, const Definitions &whole, const Loop &loop,
                llvm::ArrayRef<std::uint32_t> reads);

} // namespace tally::ptx

#endif
