// Module → PTX text.
#ifndef TALLY_PTX_SYNTAX_PRINTER_H
#define TALLY_PTX_SYNTAX_PRINTER_H

#include "tally/ptx/ir/module.h"

#include <functional>
#include <string>
#include <string_view>

namespace tally::ptx {

/// Returns the module's text, concatenated from its items and statements and not copied from
/// source(), so print(parse(x)) == x proves that the IR covers every byte.
std::string print(const Module &module);

/// Hands the same text to `sink` in pieces.
void print(const Module &module, const std::function<void(std::string_view)> &sink);

} // namespace tally::ptx

#endif
