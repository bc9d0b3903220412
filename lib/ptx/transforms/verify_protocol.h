// What a variant must do beside computing right: matters of memory order and convergence that no
// run on the emulator shows, since it has neither caches nor a hardware barrier.
#ifndef TALLY_LIB_PTX_TRANSFORMS_VERIFY_PROTOCOL_H
#define TALLY_LIB_PTX_TRANSFORMS_VERIFY_PROTOCOL_H

#include "tally/bundle/verdict.h"
#include "tally/ptx/ir/module.h"

#include <optional>
#include <string>

namespace tally::ptx {

/// Whether `variant` is a persistent one without a loop: its worker takes one block and exits.
bool takesOneBlock(Kind kind, const Function &variant);

/// Checks one entry of a guard variant of `user`, or of a kind with workers: the control word is
/// read by a strong load; the barrier at the head of the persistent loop is not the aligned form,
/// which a warp that arrives in parts may not use (where the module's PTX has another); copies that
/// the body may leave in flight are waited for there. Returns what is broken, or nothing.
std::optional<std::string> checkProtocol(const Module &module, const Function &user, Kind kind,
                                         const Function &variant);

} // namespace tally::ptx

#endif
