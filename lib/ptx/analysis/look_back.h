// Kernels whose blocks wait for words that only blocks before them in some order write.
#ifndef TALLY_LIB_PTX_ANALYSIS_LOOK_BACK_H
#define TALLY_LIB_PTX_ANALYSIS_LOOK_BACK_H

#include "definitions.h"

#include "llvm/ADT/ArrayRef.h"

namespace tally::ptx {

/// By what the order of blocks is shown.
enum class BlockOrder : std::uint8_t {
  None,   ///< not shown
  Blocks, ///< %ctaid.x, in grids of one dimension
  Tickets ///< numbers that the kernel takes from a counter of its own
};

/// Whether no word that `reads` (of all waiting loops) read in block s is written by a block after
/// s in the order.
///
/// Shown by linear bounds: a read's address is at most F + c s + r, a write's at least F + c u + w,
/// with the same sum F over what the launch keeps constant and the same c > 0, and c + w - r is at
/// least the bytes read. So for u > s the write lies behind the read. And each word read may be an
/// earlier block's: one that no block of this kernel writes is awaited from somebody else. `writes`
/// are those that may write such words: strong ones by any pointer, plain ones by the same pointer.
///
/// Integers that wrap do no harm: an index that falls below 0 and is extended without its sign lies
/// at or above 2^31, and no block is that far.
///
/// Tickets come from the one atom.add of a constant above 0 to a word by a pointer of its own that
/// nothing else in the kernel goes by, outside of loops; directly, or once through shared memory
/// that nothing else was written to before. (That a counter is no awaited word is assumed.) They
/// grow: a block that has not started has none yet, and will take a higher one than all that were
/// taken.
BlockOrder lookBackOrder(const Cfg &cfg, const Definitions &whole,
                         llvm::ArrayRef<std::uint32_t> reads, llvm::ArrayRef<std::uint32_t> writes);

} // namespace tally::ptx

#endif
