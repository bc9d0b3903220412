// Names of a function's body: which declaration a name means at the parser's position. Internal to
// the parser.
#ifndef TALLY_LIB_PTX_SYNTAX_SCOPE_H
#define TALLY_LIB_PTX_SYNTAX_SCOPE_H

#include "tally/ptx/ir/module.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace tally::ptx {

/// A name lives until its scope closes, and hides the outer name. Registers, variables and labels
/// share one name space (PTX ISA 5.4.2 and 7). `%r<8>` is one binding for its eight names.
class ScopeTable {
public:
  ScopeTable();

  void open() { ++depth; }
  void close();
  unsigned openScopes() const { return depth; }

  /// Each returns false where the innermost scope already has the name.
  bool declareRegister(std::string_view name, RegisterId id);
  bool declareRange(std::string_view prefix, RegisterId first, std::uint32_t count);
  bool declareOther(std::string_view name);

  /// The register that `name` means here, or noRegister.
  RegisterId lookup(std::string_view name) const;

private:
  struct Binding {
    std::uint32_t slot;
    std::int32_t hidden; ///< index of the binding that this binding hides, or -1
    unsigned depth;
    RegisterId first; ///< noRegister for a name that is no register
    std::uint32_t count;
  };
  struct Slot {
    std::string_view name;
    std::uint32_t hash = 0;
    bool isRange = false;
    bool used = false;
    std::int32_t binding = -1;
  };

  bool declare(std::string_view name, bool isRange, RegisterId first, std::uint32_t count);
  std::size_t probe(std::string_view name, bool isRange, std::uint32_t hash) const;
  const Binding *find(std::string_view name, bool isRange) const;
  const Binding *findInRanges(std::string_view name, std::uint32_t &index) const;
  void grow();

  std::vector<Slot> slots; ///< open addressing; its size is a power of two
  std::size_t usedSlots = 0;
  std::vector<Binding> bindings; ///< a stack
  unsigned depth = 0;
  /// Number of visible single names that look like names of a range. It is nearly always 0, and
  /// then lookup() skips the search for single names.
  std::size_t numberedNames = 0;
};

} // namespace tally::ptx

#endif
