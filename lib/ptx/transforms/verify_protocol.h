// Duties of a variant besides correct results: memory order and convergence, which no run on the
// emulator tests, since the emulator has neither caches nor a hardware barrier.
#ifndef TALLY_LIB_PTX_TRANSFORMS_VERIFY_PROTOCOL_H
#define TALLY_LIB_PTX_TRANSFORMS_VERIFY_PROTOCOL_H

#include "tally/bundle/verdict.h"
#include "tally/ptx/ir/module.h"

#include <optional>
#include <string>

namespace tally::ptx {

/// Whether `variant` is a persistent variant without a loop: its worker takes one block and exits.
bool takesOneBlock(Kind kind, const Function &variant);

/// Checks one entry of a guard variant of `user`, or of a kind with workers. A strong load reads
/// the control word. The barrier at the head of the persistent loop is not in the aligned form,
/// which threads of a warp that arrive apart may not use (where the module's PTX has another form).
/// Threads wait there for copies that the body may leave in flight. Returns the broken rule, or
/// nothing.
std::optional<std::string> checkProtocol(const Module &module, const Function &user, Kind kind,
                                         const Function &variant);

} // namespace tally::ptx

#endif
