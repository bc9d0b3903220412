// Keeps the counter of a point's strips over a checkpoint, without a store or load in the loop's
// own code (checkpoint_pass.h, the coding `counted`).
//
// ptxas keeps a value that is uniform over a warp in one register per warp. If the code stores a
// loop's counter on the way to the save area, or may load it from there, ptxas no longer does so
// for values in one expression with the counter, such as the block's ids, and moves more of these
// out of the loop: `tiled_product` of benchmarks/variants then needs 48 registers for the user's
// 40, or spills. A store at each poll, and a counter to which code only adds constants, change
// nothing in the loop. So a polling thread leaves the counter in a shared word, the save code reads
// it from there, and a resumed thread counts it up from 0, digit by digit, in loops: ptxas would
// turn an `if` into a selection of two values.
#ifndef TALLY_LIB_PTX_TRANSFORMS_KEPT_COUNTER_H
#define TALLY_LIB_PTX_TRANSFORMS_KEPT_COUNTER_H

#include "tally/ptx/analysis/checkpoint_plan.h"
#include "tally/ptx/transforms/pass.h"

#include <string>
#include <string_view>

namespace tally::ptx {

/// Bits of a digit.
inline constexpr unsigned keptDigit = 4;

/// Whether the point's counter can be kept: it is saved, and uniform over the block.
bool canKeepCounter(const SavePoint &point);

/// Whether some point's counter can be kept, and static shared memory has space for the word.
bool canKeepCounters(const PassInput &input);

/// The word, one for all points. declareCounterWord() declares it, unless it is a part of
/// $tally_block, and the registers that the texts below use.
std::string counterWord(const PassInput &input);
std::string declareCounterWord(const PassInput &input);

/// Before the block meets at a poll, all threads store the counter, which is one value. The stores
/// are strong: two weak stores to a word are a race, whatever they store.
std::string keepCounter(const PassInput &input, const SavePoint &point, std::string_view word);

/// The register through which a kept counter moves.
std::string_view keptThrough(unsigned bits);

/// `counter` = the content of keptThrough(). `number`: of the point, for labels.
std::string countUp(std::string_view counter, unsigned bits, std::size_t number);

} // namespace tally::ptx

#endif
