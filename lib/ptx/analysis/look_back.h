// Kernels whose blocks wait for words that only earlier blocks write, in some order of blocks.
#ifndef TALLY_LIB_PTX_ANALYSIS_LOOK_BACK_H
#define TALLY_LIB_PTX_ANALYSIS_LOOK_BACK_H

#include "definitions.h"

#include "llvm/ADT/ArrayRef.h"

namespace tally::ptx {

/// The order of blocks that the kernel uses.
enum class BlockOrder : std::uint8_t {
  None,   ///< not shown
  Blocks, ///< %ctaid.x, in grids of one dimension
  Tickets ///< numbers that the kernel takes from a counter of its own
};

/// Whether a word that `reads` (of all waiting loops) read in block s is never written by a block
/// after s in the order.
///
/// Shown by linear bounds: a read's address is at most F + c s + r, a write's at least F + c u + w,
/// with the same sum F over launch constants and the same c > 0, and c + w - r is at least the
/// bytes read. So for u > s the write lies behind the read. And an earlier block may write each
/// word read: a word that no block of this kernel writes is awaited from elsewhere. `writes` are
/// the writes that may reach such words: strong writes by any pointer, plain writes by the same
/// pointer.
///
/// Wrapping integers do no harm: an index that falls below 0 and is extended without its sign lies
/// at or above 2^31, and no block has such an index.
///
/// Tickets come from a single atom.add, outside of loops, of a constant above 0 to a word. Nothing
/// else in the kernel accesses memory by the pointer of that word. The result is used directly, or
/// once through shared memory to which nothing else was written before. (The analysis assumes that
/// a counter is no awaited word.) Tickets grow: a block that has not started will take a higher
/// ticket than all tickets taken so far.
BlockOrder lookBackOrder(const Cfg &cfg, const Definitions &whole,
                         llvm::ArrayRef<std::uint32_t> reads, llvm::ArrayRef<std::uint32_t> writes);

} // namespace tally::ptx

#endif
