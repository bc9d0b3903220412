// What addresses are computed from.
#ifndef TALLY_LIB_PTX_ANALYSIS_POINTER_ROOTS_H
#define TALLY_LIB_PTX_ANALYSIS_POINTER_ROOTS_H

#include "definitions.h"

#include <optional>
#include <set>
#include <string_view>
#include <utility>

namespace tally::ptx {

/// Pointers that an address may have been made from by additions and choices.
struct PointerRoots {
  std::set<std::pair<std::string_view, std::int64_t>>
      known;            ///< a parameter and the byte in it, or a variable and 0
  bool unknown = false; ///< also from memory or by an operation that is not followed

  bool meets(const PointerRoots &other) const;
  void add(const PointerRoots &other);
};

/// The entry's parameter, and the byte in it, that `load` loads `reg` from; none when it does not.
std::optional<std::pair<std::string_view, std::int64_t>>
loadedParameter(const Cfg &cfg, const Definitions &whole, const Instruction &load, RegisterId reg);

/// The roots of the address that `instruction` accesses (its first Address operand). They err on
/// the side of more: a stride that is a 64-bit parameter counts as one.
PointerRoots rootsOfAddress(const Cfg &cfg, const Definitions &whole,
                            const Instruction &instruction);

} // namespace tally::ptx

#endif
