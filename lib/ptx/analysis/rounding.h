// Whether the last bits of a kernel's results depend on how ptxas assembles its loops.
//
// An approximate operation (.approx, .full) has a bound on its error, not one result (PTX ISA 9.0,
// 9.7.3). Where ptxas knows the operand it computes the value itself, and divides by a known number
// by multiplying by its reciprocal; where it does not the GPU approximates, and the last bits
// differ. A loop's counter is known where the loop is unrolled wholly, as in the user's kernel, and
// is not where a poll keeps it a loop.
//
// A product and a sum without a rounding modifier may become one operation, rounded once (9.7.3,
// add, mul), where ptxas brings them together: those of two turns of a loop that it unrolls, and
// those on the two sides of where the variant polls.
#ifndef TALLY_LIB_PTX_ANALYSIS_ROUNDING_H
#define TALLY_LIB_PTX_ANALYSIS_ROUNDING_H

#include "tally/ptx/analysis/refusal_reasons.h"
#include "tally/ptx/ir/module.h"

#include "llvm/ADT/ArrayRef.h"

#include <cstdint>
#include <vector>

namespace tally::ptx {

/// Of an entry whose pause polls before the statements `naps`, and whose checkpoint before `saves`;
/// none where there is no such kind.
std::vector<Finding> findRounding(const Function &entry, llvm::ArrayRef<std::uint32_t> naps,
                                  llvm::ArrayRef<std::uint32_t> saves);

} // namespace tally::ptx

#endif
