// Whether the last bits of a kernel's results depend on how ptxas assembles its loops.
//
// An approximate operation (.approx, .full) has a bound on its error, not one result (PTX ISA 9.0,
// 9.7.3). Where ptxas knows the operand it computes the value itself, and it divides by a known
// number by multiplying by the reciprocal. Elsewhere the GPU approximates, and the last bits
// differ. ptxas knows a loop's counter where it unrolls the loop fully, as in the user's kernel,
// but not where a poll prevents unrolling.
//
// A product and a sum without a rounding modifier may become one operation, rounded once (9.7.3,
// add, mul), where ptxas brings them together: from two turns of a loop that it unrolls, or from
// the two sides of a poll of the variant.
#ifndef TALLY_LIB_PTX_ANALYSIS_ROUNDING_H
#define TALLY_LIB_PTX_ANALYSIS_ROUNDING_H

#include "tally/ptx/analysis/refusal_reasons.h"
#include "tally/ptx/ir/module.h"

#include "llvm/ADT/ArrayRef.h"

#include <cstdint>
#include <vector>

namespace tally::ptx {

/// Returns the findings for an entry. Its pause variant polls before the statements `naps`, its
/// checkpoint variant before `saves`; the list is empty without such a variant.
std::vector<Finding> findRounding(const Function &entry, llvm::ArrayRef<std::uint32_t> naps,
                                  llvm::ArrayRef<std::uint32_t> saves);

} // namespace tally::ptx

#endif
