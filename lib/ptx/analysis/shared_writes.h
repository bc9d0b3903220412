// Writes of instructions to memory that blocks share.
#ifndef TALLY_LIB_PTX_ANALYSIS_SHARED_WRITES_H
#define TALLY_LIB_PTX_ANALYSIS_SHARED_WRITES_H

#include "tally/ptx/ir/module.h"

#include <cstdint>

namespace tally::ptx {

/// Whether `instruction` may write memory that other blocks read: any write except to shared, local
/// or parameter space by name. A call counts, and an unknown opcode.
bool mayWriteShared(const Instruction &instruction);

/// Whether another block may wait for such a write, without a data race or in spite of one. It may
/// not for plain and .cta-scoped stores (PTX ISA, memory consistency model: operations of two
/// blocks are morally strong only where both scopes hold both threads).
bool isStrongWrite(const Instruction &instruction);

/// Whether it may write the block's own shared memory: any write that does not name another space.
bool mayWriteBlockMemory(const Instruction &instruction);

/// Returns the address that it accesses, `[base+offset]`; null without an address or with more
/// parts.
const Operand *singleAddressOf(const Instruction &access);

/// Returns the bytes that an access by a scalar or vector type touches; 0 when unknown.
std::int64_t accessedBytes(const Instruction &access);

} // namespace tally::ptx

#endif
