// Turnstiles: blocks that pass a word in the order of one of their block ids.
#ifndef TALLY_LIB_PTX_ANALYSIS_TURNSTILE_H
#define TALLY_LIB_PTX_ANALYSIS_TURNSTILE_H

#include "definitions.h"

#include "llvm/ADT/ArrayRef.h"

#include <optional>

namespace tally::ptx {

/// The dimension d (0 x, 1 y, 2 z) such that `loop` is left only when a word that it reads equals
/// the block's own %ctaid.d, if it is such a loop. Its reads of what other blocks write are
/// `reads`.
///
/// Shown by following each read's value: it is only compared with %ctaid.d; the outcome of the
/// comparison is followed with its sense (set when equal, or when different) through selections
/// between constants, negations, and reductions over the block; the only branches on it are ways
/// out of the loop, taken in the sense "equal". Nothing in the loop writes memory that blocks
/// share. Then more reads that come out different never open a way out.
std::optional<unsigned> turnstileDimension(const Cfg &cfg, const Definitions &whole,
                                           const Loop &loop, llvm::ArrayRef<std::uint32_t> reads);

/// Whether everything that `write` may store is 0 or the block's own %ctaid.`dimension` + 1, as a
/// 32-bit scalar.
bool passesTurnstile(const Cfg &cfg, const Definitions &whole, const Instruction &write,
                     unsigned dimension);

} // namespace tally::ptx

#endif
