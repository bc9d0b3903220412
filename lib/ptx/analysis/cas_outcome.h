// What becomes of a loop when an atom.cas in it succeeds.
#ifndef TALLY_LIB_PTX_ANALYSIS_CAS_OUTCOME_H
#define TALLY_LIB_PTX_ANALYSIS_CAS_OUTCOME_H

#include "loops.h"

#include <cstdint>
#include <optional>

namespace tally::ptx {

/// Whether `instruction` is `atom.cas d, [a], b, c` without a guard, its result in a register.
bool isPlainCas(const Instruction &instruction);

/// Whether `loop` is left whenever the atom.cas at `cas` (isPlainCas) succeeds: each way from it
/// that stays in the loop takes a branch, before it comes to the cas again, that tests of what it
/// returned against its comparand say is taken only after a failure. `expected` is the comparand's
/// value where it is a constant; tests against that count too.
bool leavesWhenExchanged(const Cfg &cfg, const Loop &loop, std::uint32_t cas,
                         std::optional<std::uint64_t> expected = std::nullopt);

} // namespace tally::ptx

#endif
