// PTX text as tally-verify needs it: parsed with a readable error, and able to tell where the
// module's variables are.
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

/// The bundle's PTX image; fails where it has none.
Result<std::string_view> ptxOf(const bundle::Bundle &bundle);

/// Parses; an error reads `<where>:<line>:<column>: <sentence>`.
Result<ptx::Module> parsePtx(std::string text, std::string_view where);

/// A variable of the module's that kernels can write.
struct ModuleVariable {
  std::string name;
  ElementType type = ElementType::U8;
  std::size_t bytes = 0;
};

/// All sized `.global` variables that the module itself defines, in order.
std::vector<ModuleVariable> moduleVariables(const ptx::Module &module);

/// The entry that withVariableReader() adds. Its one parameter points to room for 8 bytes a
/// variable; run by one thread, it stores their addresses there, in the order of moduleVariables().
/// So the results that a kernel leaves in its module are compared on every device in one way.
inline constexpr std::string_view variableReader = "tally_verify_variables";

/// `text` and the entry; unchanged where it does not parse or has no such variable.
std::string withVariableReader(std::string_view text);

} // namespace tally::verify

#endif
