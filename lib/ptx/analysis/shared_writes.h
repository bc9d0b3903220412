// What instructions may write to memory that blocks share.
#ifndef TALLY_LIB_PTX_ANALYSIS_SHARED_WRITES_H
#define TALLY_LIB_PTX_ANALYSIS_SHARED_WRITES_H

#include "tally/ptx/ir/module.h"

#include <cstdint>

namespace tally::ptx {

/// Whether `instruction` may write memory that other blocks read: anything but a write that says it
/// goes to shared, local or parameter space. A call counts, and an unknown opcode.
bool mayWriteShared(const Instruction &instruction);

/// Of such a write: whether another block may wait for it without a data race, or in spite of one.
/// Plain and .cta-scoped stores are the ones that it may not (PTX ISA, memory consistency model:
/// operations of two blocks are morally strong only where both scopes hold both threads).
bool isStrongWrite(const Instruction &instruction);

/// Whether it may write the block's own shared memory: everything that writes memory but says that
/// it writes another.
bool mayWriteBlockMemory(const Instruction &instruction);

/// The address that it accesses, `[base+offset]`; null where there is none or one of more parts.
const Operand *singleAddressOf(const Instruction &access);

/// Bytes that an access by a scalar or vector type touches; 0 when it is not known.
std::int64_t accessedBytes(const Instruction &access);

} // namespace tally::ptx

#endif
