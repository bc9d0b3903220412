// The launch shape of the kernels of copy_kernels.cu; nvcc reads this file too.
#ifndef TALLY_LIB_HOOKS_KERNELS_COPY_SHAPE_H
#define TALLY_LIB_HOOKS_KERNELS_COPY_SHAPE_H

namespace tally::hooks {

/// Threads of a block, and the bytes that a block moves. Each thread has four loads of 16 bytes in
/// flight, so all bytes of a block are in flight. An SM holds six to eight blocks, some 100 KiB;
/// each SM of an H200 needs 20 to 40 KiB in flight to keep the memory busy.
constexpr unsigned copyThreads = 256, copyBlockBytes = 16 * 1024;

} // namespace tally::hooks

#endif
