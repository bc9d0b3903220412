// Codings of a loop around a body that need fewer registers.
#ifndef TALLY_LIB_PTX_TRANSFORMS_CODINGS_H
#define TALLY_LIB_PTX_TRANSFORMS_CODINGS_H

#include "tally/ptx/ir/module.h"
#include "tally/ptx/transforms/editor.h"

#include <string>
#include <vector>

namespace tally::ptx {

/// Returns the body's name of `reg`, which `declaration` declares.
std::string registerName(const RegisterDeclaration &declaration, RegisterId reg);

/// Returns the registers that some path through the body may read before it writes them, if the
/// place of insertAtBodyStart() can name them. In a loop each occupies a register for the whole
/// body, as one round may leave a value that the next round reads.
std::vector<RegisterId> undefinedAtBodyStart(const Function &function);

/// Returns instructions that set `registers` to 0, where one move suffices: an undefined register
/// may hold any value.
std::string zero(const Function &function, const std::vector<RegisterId> &registers);

/// Returns loads of 64-bit parameters that ptxas tends to move out of a loop, by statement.
std::vector<std::uint32_t> pointerLoads(const Function &function);

/// Adds to each loaded value a 0 that ptxas cannot know: `zeroIndex`, instructions that set
/// %tally_r0 to a number below 2^31, shifted right by 31. So the address depends on the round.
void makeOpaque(FunctionEditor &editor, const Function &function,
                const std::vector<std::uint32_t> &loads, const std::string &zeroIndex);

} // namespace tally::ptx

#endif
