// Module → PTX text.
#ifndef TALLY_PTX_SYNTAX_PRINTER_H
#define TALLY_PTX_SYNTAX_PRINTER_H

#include "tally/ptx/ir/module.h"

#include <string>

namespace tally::ptx {

/// The module's text, put together from its items and statements (not copied from source()), so
/// that print(parse(x)) == x proves that the IR covers every byte.
std::string print(const Module &module);

} // namespace tally::ptx

#endif
