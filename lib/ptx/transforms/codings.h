// Ways to write a loop around a body that cost fewer registers.
#ifndef TALLY_LIB_PTX_TRANSFORMS_CODINGS_H
#define TALLY_LIB_PTX_TRANSFORMS_CODINGS_H

#include "tally/ptx/ir/module.h"
#include "tally/ptx/transforms/editor.h"

#include <string>
#include <vector>

namespace tally::ptx {

/// How the body names `reg`, which `declaration` declares.
std::string registerName(const RegisterDeclaration &declaration, RegisterId reg);

/// Registers that some way through the body may read before it writes them, as far as the place
/// where insertAtBodyStart() puts its text can name them. In a loop each holds a register for the
/// whole body, as what one round leaves in it may be what the next one reads.
std::vector<RegisterId> undefinedAtBodyStart(const Function &function);

/// Instructions that set `registers` to 0, as far as one move does: what is not defined may be
/// anything.
std::string zero(const Function &function, const std::vector<RegisterId> &registers);

/// Loads of 64-bit parameters as ptxas likes to take them out of a loop, by statement.
std::vector<std::uint32_t> pointerLoads(const Function &function);

/// Adds to what each of them loads a 0 that ptxas cannot know: `zeroIndex`, instructions that set
/// %tally_r0 to a number below 2^31, shifted right by 31. So the address depends on the round.
void makeOpaque(FunctionEditor &editor, const Function &function,
                const std::vector<std::uint32_t> &loads, const std::string &zeroIndex);

} // namespace tally::ptx

#endif
