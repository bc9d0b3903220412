// PTX text for tally-verify: parses with readable errors and finds the module's variables.
#ifndef TALLY_VERIFY_PTX_TEXT_H
#define TALLY_VERIFY_PTX_TEXT_H

#include "element.h"

#include "tally/bundle/bundle.h"
#include "tally/ptx/ir/module.h"
#include "tally/support/result.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tally::verify {

/// Returns the bundle's PTX image; fails where it has none.
Result<std::string_view> ptxOf(const bundle::Bundle &bundle);

/// Parses PTX; an error reads `<where>:<line>:<column>: <sentence>`.
Result<ptx::Module> parsePtx(std::string text, std::string_view where);

/// A variable of the module that kernels can write.
struct ModuleVariable {
  std::string name;
  ElementType type = ElementType::U8;
  std::size_t bytes = 0;
};

/// Returns all sized `.global` variables that the module itself defines, in order.
std::vector<ModuleVariable> moduleVariables(const ptx::Module &module);

/// Name of the entry that withVariableReader() adds. Its one parameter points to 8 bytes per
/// variable. Run by one thread, the entry stores the variables' addresses there, in the order of
/// moduleVariables(). So a kernel's results in module variables are compared in the same way on
/// every device.
inline constexpr std::string_view variableReader = "tally_verify_variables";

/// Returns `text` with the entry added; unchanged where it does not parse or has no such variable.
std::string withVariableReader(std::string_view text);

} // namespace tally::verify

#endif
