// Whether a copy of a module would compute with other values than the module itself.
#ifndef TALLY_LIB_PTX_ANALYSIS_VARIABLE_WRITES_H
#define TALLY_LIB_PTX_ANALYSIS_VARIABLE_WRITES_H

#include "tally/ptx/analysis/module_facts.h"

namespace tally::ptx {

/// Whether code that `function` names may change a variable of the module (.global), give the
/// address of one (.global, .const) away, or use one that only the program fills (textures, managed
/// and external variables). Addresses are followed through registers and into the driver's
/// `vprintf` and `__assertfail`, in no order: what is not understood counts. Not the functions that
/// it calls; a variable that the program fills by its name is not seen here.
bool mayChangeVariables(ModuleFacts &modules, const Function &function);

} // namespace tally::ptx

#endif
