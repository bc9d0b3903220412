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

#include "tally/ptx/analysis/cfg.h"

#include <cstdint>
#include <optional>

namespace tally::ptx {

/// The first approximate operation of a value that immediates and the turns of a loop make, where
/// immediates say how many turns there are.
std::optional<std::uint32_t> approximationOfTurns(const Cfg &cfg);

/// The first such sum of a product that comes to it past one of the polls, which stand before these
/// statements. Products that come into a loop count where immediates say how many turns it has.
std::optional<std::uint32_t> contractionPastPoll(const Cfg &cfg,
                                                 llvm::ArrayRef<std::uint32_t> polls);

} // namespace tally::ptx

#endif
