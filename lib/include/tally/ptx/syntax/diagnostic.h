// Errors in the text of a module. The library never prints: a tool renders the diagnostics.
#ifndef TALLY_PTX_SYNTAX_DIAGNOSTIC_H
#define TALLY_PTX_SYNTAX_DIAGNOSTIC_H

#include <cstddef>
#include <string>

namespace tally::ptx {

/// Wrong input: a sentence, and the bytes of the source at fault.
struct Diagnostic {
  std::string message;
  std::size_t offset = 0; ///< into the source text; may equal its size
  std::size_t length = 0; ///< bytes to underline; 0 means a caret only
};

} // namespace tally::ptx

#endif
