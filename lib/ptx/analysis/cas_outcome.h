// What becomes of a loop when an atom.cas in it succeeds.
#ifndef TALLY_LIB_PTX_ANALYSIS_CAS_OUTCOME_H
#define TALLY_LIB_PTX_ANALYSIS_CAS_OUTCOME_H

#include "loops.h"

#include "llvm/ADT/ArrayRef.h"

#include <cstdint>
#include <optional>

namespace tally::ptx {

/// Whether `instruction` is `atom.cas d, [a], b, c` without a guard, its result in a register.
bool isPlainCas(const Instruction &instruction);

/// Whether `loop` is left whenever the atom.cas at `cas` (isPlainCas) succeeds: each way from it
/// that stays in the loop takes a branch, before it comes to the cas again, that tests of what it
/// returned against its comparand say is taken only after a failure. `expected` is the comparand's
/// value where it is a constant; tests against that count too.
///
/// `stored` are registers that hold the new value, which then is the same in each turn. A branch
/// also counts that is taken only while what the cas returned compares with the new value in a way
/// in which no value compares with itself (less, greater, not equal): when a later turn finds what
/// this one has stored, the loop is left. A NaN is unordered with itself, so where such a test of
/// floats goes on for a NaN it has to be the loop's only way out: for a new value that is a NaN the
/// loop then never ends, whatever others write.
bool leavesWhenExchanged(const Cfg &cfg, const Loop &loop, std::uint32_t cas,
                         std::optional<std::uint64_t> expected = std::nullopt,
                         llvm::ArrayRef<RegisterId> stored = {});

} // namespace tally::ptx

#endif
