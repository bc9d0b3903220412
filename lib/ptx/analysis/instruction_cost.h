// About how long a warp takes for an instruction, among as many others as half fill an SM.
#ifndef TALLY_LIB_PTX_ANALYSIS_INSTRUCTION_COST_H
#define TALLY_LIB_PTX_ANALYSIS_INSTRUCTION_COST_H

#include "tally/ptx/ir/module.h"

#include <cstdint>

namespace tally::ptx {

/// Cycles; 0 of what is no machine instruction.
std::uint64_t cyclesOf(const Instruction &instruction);

} // namespace tally::ptx

#endif
