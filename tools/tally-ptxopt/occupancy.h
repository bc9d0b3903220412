// Computes how many thread blocks of a kernel an SM holds.
#ifndef TALLY_TOOLS_PTXOPT_OCCUPANCY_H
#define TALLY_TOOLS_PTXOPT_OCCUPANCY_H

#include "tally/ptx/ir/module.h"

#include <cstdint>

namespace tally::ptxopt {

/// Returns the number of blocks of `threads` threads with `registers` registers a thread and
/// `sharedBytes` of static shared memory that an SM of `arch` (90 for sm_90) holds at once, by the
/// limits of the CUDA C++ Programming Guide, table "Technical Specifications per Compute
/// Capability"; 0 if none fits.
std::uint32_t blocksPerSm(std::uint32_t arch, std::uint32_t threads, std::uint32_t registers,
                          std::uint32_t sharedBytes);

/// Return the registers or threads of an SM that this many such blocks leave free.
std::uint32_t registersLeft(std::uint32_t threads, std::uint32_t registers, std::uint32_t blocks);
std::uint32_t threadsLeft(std::uint32_t arch, std::uint32_t threads, std::uint32_t blocks);

/// Returns the threads of a block as the kernel declares them (.reqntid, .maxntid), or 256.
std::uint32_t threadsOf(const ptx::Function &function);
bool declaresThreads(const ptx::Function &function);

} // namespace tally::ptxopt

#endif
