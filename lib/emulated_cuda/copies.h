// Copies and fills of boxes of bytes: all of CUDA's forms are converted to them.
#ifndef TALLY_LIB_EMULATED_CUDA_COPIES_H
#define TALLY_LIB_EMULATED_CUDA_COPIES_H

#include "graph.h"

#include "tables/cuda_versions.h"

namespace tally::hooks::emulated {

/// One side of a copy: rows `pitch` bytes apart in slices `slice` bytes apart.
struct Side {
  std::byte *begin = nullptr;
  std::size_t pitch = 0, slice = 0;
};

struct Box {
  Side to, from;
  std::size_t width = 0, height = 1, depth = 1; ///< bytes, rows, slices

  bool isEmpty() const { return width == 0 || height == 0 || depth == 0; }
};

struct Fill {
  Side to;
  int value = 0;
  std::size_t width = 0, height = 1, depth = 1;
  std::size_t valueBytes = 1; ///< 1, 2 or 4, for a graph's node
};

enum class Wait : std::uint8_t { No, Yes };

/// The error that CUDA would return for the copy, or success; memory that kernels cannot use is
/// pageable host memory.
cudaError_t complaint(runtime::EmulatorDevice &device, const Box &box, cudaMemcpyKind kind);

/// Copies in the order of the stream. Pageable memory is read during the call and written before
/// the call returns, unless the stream is being captured.
cudaError_t copy(runtime::EmulatorDevice &device, cudaStream_t stream, Box box, cudaMemcpyKind kind,
                 Wait wait);
cudaError_t fill(runtime::EmulatorDevice &device, cudaStream_t stream, const Fill &fill);

/// The same copy or fill as an operation of a graph.
GraphWork workOf(const Box &box, cudaMemcpyKind kind);
GraphWork workOf(const Fill &fill);
cudaError_t complaint(runtime::EmulatorDevice &device, const Fill &fill);

/// The box that cudaMemcpy3D's parameters describe.
cudaError_t boxOf(const cudaMemcpy3DParms &parameters, Box &box);

inline Box linear(void *to, const void *from, std::size_t bytes) {
  auto *source = static_cast<std::byte *>(const_cast<void *>(from));
  return {{static_cast<std::byte *>(to), bytes, bytes}, {source, bytes, bytes}, bytes, 1, 1};
}

} // namespace tally::hooks::emulated

#endif
