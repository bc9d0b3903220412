// Diagnostic → text, for programs that do not link LLVM (LLVM programs have SourceMgr).
#ifndef TALLY_PTX_SYNTAX_RENDER_H
#define TALLY_PTX_SYNTAX_RENDER_H

#include "tally/ptx/syntax/diagnostic.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace tally::ptx {

/// A position in a text: line and column from 1, the column in bytes.
struct LineAndColumn {
  std::uint32_t line = 1, column = 1;
};

/// Returns the position of the byte at `offset`, which is at most the text's size. O(offset).
LineAndColumn placeOf(std::string_view source, std::size_t offset);

/// Returns `FILE:LINE:COLUMN: error: MESSAGE`, the line, and a caret under it; ends in a newline.
std::string render(const Diagnostic &diagnostic, std::string_view fileName,
                   std::string_view source);

} // namespace tally::ptx

#endif
