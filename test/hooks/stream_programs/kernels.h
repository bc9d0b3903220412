// The kernels of the stream programs. Each kernel changes its words so that the result shows a
// block that ran twice, was lost, or ran before an operation that it follows.
#ifndef TALLY_TEST_HOOKS_STREAM_PROGRAMS_KERNELS_H
#define TALLY_TEST_HOOKS_STREAM_PROGRAMS_KERNELS_H

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace tally::programs {

enum class KernelId : int {
  Mix,      ///< each word by itself
  Combine,  ///< with words of another buffer that other blocks of an earlier kernel wrote
  Combine3, ///< with two other buffers; a struct by value among its parameters
  Reverse,  ///< tiles in dynamic shared memory, barriers, blocks that leave early
  Count,    ///< atomics of all blocks on few words
  Tiles,    ///< a grid of two dimensions
  Meet,     ///< cooperative, with a barrier of the grid: has no usable variant
  Bare,     ///< from an object that was not rewritten
  Cluster,  ///< pairs of blocks that exchange words
  Table     ///< changes the `__device__` variable by name
};
inline constexpr int kernelCount = 10;

struct KernelCall {
  KernelId kernel{};
  std::uint32_t *to = nullptr;
  const std::uint32_t *from = nullptr, *also = nullptr;
  std::uint32_t words = 0, value = 0, rounds = 1;
  std::uint32_t *meeting = nullptr; ///< for Meet: a word that only calls on `to` use, zero at first
};

/// A call in the form that the CUDA runtime takes.
struct PackedCall {
  const void *function = nullptr;
  dim3 grid, block;
  std::size_t sharedBytes = 0;
  bool cooperative = false;
  struct {
    alignas(16) std::byte bytes[16];
  } storage[8];
  void *arguments[8];
};
void pack(const KernelCall &call, PackedCall &packed);

/// Number of other buffers that the kernel reads: 0 to 2.
int sourcesOf(KernelId kernel);
/// The variable of Memory::Symbol, its name for cudaMemcpyToSymbol, and the function of Table. They
/// have an object of their own.
const void *tableSymbol();
const void *tableFunction();

/// The function of Bare, in its own object.
const void *bareFunction();

} // namespace tally::programs

#endif
