// PTX text → Module.
#ifndef TALLY_PTX_SYNTAX_PARSER_H
#define TALLY_PTX_SYNTAX_PARSER_H

#include "tally/ptx/ir/module.h"
#include "tally/ptx/syntax/diagnostic.h"

#include <string>
#include <variant>

namespace tally::ptx {

/// Parses a whole module. Takes any bytes: text that is not PTX gives a Diagnostic, never a crash;
/// depth and sizes are bounded. The first error ends the parse.
std::variant<Module, Diagnostic> parse(std::string source);

} // namespace tally::ptx

#endif
