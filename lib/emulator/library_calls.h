// Functions without a body that the emulator implements.
#ifndef TALLY_LIB_EMULATOR_LIBRARY_CALLS_H
#define TALLY_LIB_EMULATOR_LIBRARY_CALLS_H

#include "op.h"

#include <string_view>

namespace tally::emulator {

/// Returns the handler of a call of `name` with that many arguments; Op::extra is the call site.
/// Null for a function that the emulator does not know.
Handler libraryCall(std::string_view name, std::size_t arguments);

} // namespace tally::emulator

#endif
