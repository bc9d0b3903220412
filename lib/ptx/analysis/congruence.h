// Residues of addresses modulo powers of two: which byte of an element an address is.
#ifndef TALLY_LIB_PTX_ANALYSIS_CONGRUENCE_H
#define TALLY_LIB_PTX_ANALYSIS_CONGRUENCE_H

#include "definitions.h"

namespace tally::ptx {

/// Whether the bytes that `one` and `other` access by an address (an `ld`, `st`, `atom` or `red` of
/// a known size) are shown to be never the same: both addresses are the same pointer, a parameter
/// or a variable, plus multiples of a power of two, and their bytes lie apart within that power.
/// Different members of the elements of one array are an example.
bool areApart(const Cfg &cfg, const Definitions &whole, const Instruction &one,
              const Instruction &other);

} // namespace tally::ptx

#endif
