// The statements around a call, which pass its arguments.
#ifndef TALLY_PTX_ANALYSIS_CALL_SEQUENCE_H
#define TALLY_PTX_ANALYSIS_CALL_SEQUENCE_H

#include "tally/ptx/analysis/function_facts.h"

#include <optional>

namespace tally::ptx {

/// A scope that holds one call, sets its arguments and takes its results: `{ … call …; … }`, as
/// compilers write each call. Statements `begin` and `end` are its braces.
struct CallSequence {
  std::uint32_t begin = 0, end = 0;
};

/// Returns the scope around `call` if a copy beside it does the same: the scope has no label that
/// control goes to, no branch, no other call, no inner scope, and reads no grid register; the
/// called pointer comes from outside and is not assigned inside. (A choice between the arguments
/// and the call would be shorter, but PTX ISA 9.0, 7.1 wants both in one straight run.)
std::optional<CallSequence> callSequenceOf(const Function &caller, const FunctionFacts &facts,
                                           const CallSite &call);

/// Whether `callee` takes as many arguments and results, of the same sizes, as `call` passes. A
/// call through a pointer to any other function is undefined. True when the sizes are not known.
bool mayTakeArguments(const Function &callee, const Function &caller, const CallSite &call);

} // namespace tally::ptx

#endif
