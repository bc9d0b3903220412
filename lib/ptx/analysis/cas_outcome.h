// Whether a loop ends when an atom.cas in it succeeds.
#ifndef TALLY_LIB_PTX_ANALYSIS_CAS_OUTCOME_H
#define TALLY_LIB_PTX_ANALYSIS_CAS_OUTCOME_H

#include "loops.h"

#include "llvm/ADT/ArrayRef.h"

#include <cstdint>
#include <optional>

namespace tally::ptx {

/// Whether `instruction` is `atom.cas d, [a], b, c` without a guard, its result in a register.
bool isPlainCas(const Instruction &instruction);

/// Whether control leaves `loop` whenever the atom.cas at `cas` (isPlainCas) succeeds: each path
/// from the cas that stays in the loop takes, before it reaches the cas again, a branch that is
/// taken only after a failure. Tests of the returned value against the comparand show that.
/// `expected` is the comparand's value where it is a constant; tests against that constant count
/// too.
///
/// `stored` are registers that hold the new value, which is then the same in each turn. A branch
/// also counts if it is taken only while the returned value compares with the new value in a way in
/// which no value compares with itself (less, greater, not equal): when a later turn finds the
/// value that this turn has stored, control leaves the loop. A NaN is unordered with itself, so
/// where such a test of floats stays in the loop for a NaN, its branch must be the only exit: for a
/// new value that is a NaN the loop then never ends, whatever others write.
bool leavesWhenExchanged(const Cfg &cfg, const Loop &loop, std::uint32_t cas,
                         std::optional<std::uint64_t> expected = std::nullopt,
                         llvm::ArrayRef<RegisterId> stored = {});

} // namespace tally::ptx

#endif
