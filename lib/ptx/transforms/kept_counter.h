// How the counter of a point's strips comes through a checkpoint without being stored or loaded in
// the loop's own code (checkpoint_pass.h, the coding `counted`).
//
// ptxas keeps what is one value for a warp in one register a warp. Where a loop's counter is stored
// on the way to the save area, or may come from there, it does so no more with what stands in one
// expression with the counter, as the block's ids do, and takes more of that out of the loop:
// `tiled_product` of benchmarks/variants then wants 48 registers for the user's 40, or spills. A
// store at each poll, and a counter that is only ever added constants to, change nothing in the
// loop. So who polls leaves the counter in a shared word, what is saved comes from there, and who
// goes on counts it up from 0, digit by digit, in loops: of an `if` ptxas would make a choice of
// two values.
#ifndef TALLY_LIB_PTX_TRANSFORMS_KEPT_COUNTER_H
#define TALLY_LIB_PTX_TRANSFORMS_KEPT_COUNTER_H

#include "tally/ptx/analysis/checkpoint_plan.h"
#include "tally/ptx/transforms/pass.h"

#include <string>
#include <string_view>

namespace tally::ptx {

/// Bits of a digit.
inline constexpr unsigned keptDigit = 4;

/// Whether the point's counter can be kept: it is saved, and one value for the block.
bool canKeepCounter(const SavePoint &point);

/// Whether some point's can, and there is room for the word in static shared memory.
bool canKeepCounters(const PassInput &input);

/// The word, one for all points, and declarations of it, where it is no part of $tally_block, and
/// of what the texts below use.
std::string counterWord(const PassInput &input);
std::string declareCounterWord(const PassInput &input);

/// Before the block meets at a poll, by all threads: they store one value. Two weak stores to a
/// word are a race, whatever they store.
std::string keepCounter(const PassInput &input, const SavePoint &point, std::string_view word);

/// The register that a kept counter is moved through.
std::string_view keptThrough(unsigned bits);

/// `counter` = what keptThrough() holds. `number`: of the point, for labels.
std::string countUp(std::string_view counter, unsigned bits, std::size_t number);

} // namespace tally::ptx

#endif
