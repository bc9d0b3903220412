// Whether a copy of a module would compute with other values than the module itself.
#ifndef TALLY_LIB_PTX_ANALYSIS_VARIABLE_WRITES_H
#define TALLY_LIB_PTX_ANALYSIS_VARIABLE_WRITES_H

#include "tally/ptx/analysis/module_facts.h"

namespace tally::ptx {

/// Whether `function` may change a variable of the module (.global), leak the address of a variable
/// (.global, .const), or use a variable that only the program fills (textures, managed and external
/// variables). The analysis follows addresses through registers, in any order of statements, and
/// into the driver's `vprintf` and `__assertfail`; anything else counts. It does not follow calls,
/// and it does not see that a program fills a variable by its name.
bool mayChangeVariables(ModuleFacts &modules, const Function &function);

} // namespace tally::ptx

#endif
