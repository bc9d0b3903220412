// Which byte of an element an address is of: what addresses are modulo powers of two.
#ifndef TALLY_LIB_PTX_ANALYSIS_CONGRUENCE_H
#define TALLY_LIB_PTX_ANALYSIS_CONGRUENCE_H

#include "definitions.h"

namespace tally::ptx {

/// Whether the bytes that `one` and `other` access by an address (an `ld`, `st`, `atom` or `red` of
/// a known size) are shown never to be the same: both addresses are the same pointer, a parameter
/// or a variable, plus multiples of a power of two, and within that their bytes lie apart. So it is
/// with the members of the elements of one array.
bool areApart(const Cfg &cfg, const Definitions &whole, const Instruction &one,
              const Instruction &other);

} // namespace tally::ptx

#endif
