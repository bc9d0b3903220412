// Turnstiles: blocks that pass a word in the order of one of their block ids.
#ifndef TALLY_LIB_PTX_ANALYSIS_TURNSTILE_H
#define TALLY_LIB_PTX_ANALYSIS_TURNSTILE_H

#include "definitions.h"

#include "llvm/ADT/ArrayRef.h"

#include <optional>

namespace tally::ptx {

/// Returns the dimension d (0 x, 1 y, 2 z) such that control leaves `loop` only when a word that
/// the loop reads equals the block's own %ctaid.d; nothing for other loops. `reads` are the loop's
/// reads of memory that other blocks write.
///
/// Shown by following each value read: the loop only compares it with %ctaid.d. The outcome of the
/// comparison is followed with its sense (set when equal, or when different) through selections
/// between constants, negations, and reductions over the block. The only branches on it are exits
/// of the loop, taken in the sense "equal". Nothing in the loop writes memory that blocks share.
/// Then further reads of different values never open an exit.
std::optional<unsigned> turnstileDimension(const Cfg &cfg, const Definitions &whole,
                                           const Loop &loop, llvm::ArrayRef<std::uint32_t> reads);

/// Whether every value that `write` may store is 0 or the block's own %ctaid.`dimension` + 1, as a
/// 32-bit scalar.
bool passesTurnstile(const Cfg &cfg, const Definitions &whole, const Instruction &write,
                     unsigned dimension);

} // namespace tally::ptx

#endif
