// PTX that the variants share. Every name here begins with %tally_ or $tally_.
#ifndef TALLY_LIB_PTX_TRANSFORMS_EMIT_H
#define TALLY_LIB_PTX_TRANSFORMS_EMIT_H

#include "tally/ptx/analysis/kernel_analysis.h"
#include "tally/ptx/transforms/editor.h"
#include "tally/ptx/transforms/pass.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <string>

namespace tally::ptx::emit {

/// Renames the entry for `kind` and appends tally's parameters.
void beginVariant(FunctionEditor &editor, const PassInput &input, Kind kind, bool resume = false);

/// `.reg` declarations of everything that the texts below use; with `shared`, `$tally_block` too:
/// four words, the first nonzero when the block leaves, then the virtual %ctaid.
std::string declarations(bool shared);

/// Skips to `label` in all threads but the block's first.
std::string unlessLeader(std::string_view label);

/// Modifiers of a global load that sees what others write meanwhile: "relaxed.gpu.global", or
/// "volatile.global" before sm_70 and PTX 6.0. A plain load may hit a stale line for ever.
std::string_view strongGlobal(const Module &module);

/// %tally_yield = the control word's epoch is greater than the launch's. One load, strong enough
/// to see the host's write. The word's low half goes to register `low`, if one is named.
std::string poll(const Module &module, std::string_view low = {});

/// Appends the 32-bit `id` to list_out.
std::string appendToList(std::string_view id);

/// Divides the linear id in `%tally_id` by the user's extents and stores x, y, z in $tally_block.
std::string decodeToShared();

/// Meets at barrier 0, then leaves if the first word of $tally_block says so.
std::string agreeOrLeave();

/// Replaces each read of a grid register: %nctaid by the user's extent, %ctaid by what
/// `loadIndex(dimension, register)` loads into that register.
void replaceGridUses(FunctionEditor &editor, const FunctionFacts &facts,
                     llvm::function_ref<std::string(unsigned, const std::string &)> loadIndex);

/// Loads the virtual %ctaid from $tally_block.
std::string loadIndexFromShared(unsigned dimension, const std::string &into);

} // namespace tally::ptx::emit

#endif
