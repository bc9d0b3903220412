// What the kernels of copy_kernels.cu are launched with; nvcc reads it too.
#ifndef TALLY_LIB_HOOKS_KERNELS_COPY_SHAPE_H
#define TALLY_LIB_HOOKS_KERNELS_COPY_SHAPE_H

namespace tally::hooks {

/// Threads of a block, and the bytes that it moves. With four loads of 16 bytes under way in each
/// thread a block has all of its own in flight, and six to eight blocks are on an SM: some 100 KiB
/// of it, where an H200's memory needs 20 to 40 KiB of each to be busy.
constexpr unsigned copyThreads = 256, copyBlockBytes = 16 * 1024;

} // namespace tally::hooks

#endif
