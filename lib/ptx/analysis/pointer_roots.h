// The pointers from which addresses are computed.
#ifndef TALLY_LIB_PTX_ANALYSIS_POINTER_ROOTS_H
#define TALLY_LIB_PTX_ANALYSIS_POINTER_ROOTS_H

#include "definitions.h"

#include <optional>
#include <set>
#include <string_view>
#include <utility>

namespace tally::ptx {

/// Pointers from which additions and selections may have made an address.
struct PointerRoots {
  std::set<std::pair<std::string_view, std::int64_t>>
      known;            ///< a parameter and the byte in it, or a variable and 0
  bool unknown = false; ///< also from memory, or by an operation that the analysis does not follow

  bool meets(const PointerRoots &other) const;
  void add(const PointerRoots &other);
};

/// Returns the entry's parameter, and the byte in it, from which `load` loads `reg`; else nothing.
std::optional<std::pair<std::string_view, std::int64_t>>
loadedParameter(const Cfg &cfg, const Definitions &whole, const Instruction &load, RegisterId reg);

/// Returns the roots of the address that `instruction` accesses (its first Address operand). The
/// set may be too large: a stride that is a 64-bit parameter counts as a root.
PointerRoots rootsOfAddress(const Cfg &cfg, const Definitions &whole,
                            const Instruction &instruction);

} // namespace tally::ptx

#endif
