// The retry loop around an atom.cas that emulates another atomic: it waits for no other thread.
#ifndef TALLY_LIB_PTX_ANALYSIS_CAS_RETRY_H
#define TALLY_LIB_PTX_ANALYSIS_CAS_RETRY_H

#include "definitions.h"
#include "loops.h"

#include "llvm/ADT/ArrayRef.h"

namespace tally::ptx {

/// Whether `loop`, with `reads` of memory that other blocks write, is such a retry loop. It has one
/// atom.cas, which every turn executes, on an address that is the same in each turn. The comparand
/// is the value seen last, by the cas itself or by a load of the same word in the loop; in the
/// first turn it may be any value from before the loop. Success leaves the loop, and nothing else
/// in the loop writes memory that blocks share. So a turn fails only because another operation on
/// the word came in between, never because an operation is missing.
///
/// Success need not leave the loop if the new value is the same in each turn and the loop continues
/// only while the value that the cas found is less than the new value, greater, or different
/// (leavesWhenExchanged). If memory does not change, at most one turn fails, the next stores the
/// value, and the next finds it.
///
/// `whole` are the definitions of the body.
bool isCasRetry(const Cfg &cfg, const Definitions &whole, const Loop &loop,
                llvm::ArrayRef<std::uint32_t> reads);

} // namespace tally::ptx

#endif
