// The wrappers of allocation: the quota of best-effort processes.
#include "intercept/wrappers.h"

#include <algorithm>

using namespace tally::hooks;

namespace {

using Piece = MemoryAccount::Piece;

/// Rows start at multiples of this on all devices so far. The bytes counted after the call are
/// exact.
constexpr std::size_t pitchAlignment = 512;

std::size_t pitched(std::size_t width, std::size_t rows) {
  return (width + pitchAlignment - 1) / pitchAlignment * pitchAlignment * rows;
}

/// The bytes of an array; an extent of 0 means that the array does not have that dimension.
std::size_t bytesOf(const cudaChannelFormatDesc *format, const cudaExtent &extent) {
  if (!format)
    return 0;
  auto element = static_cast<std::size_t>((format->x + format->y + format->z + format->w) / 8);
  return element * extent.width * std::max<std::size_t>(extent.height, 1) *
         std::max<std::size_t>(extent.depth, 1);
}

std::size_t bytesOfLevels(const cudaChannelFormatDesc *format, cudaExtent extent, unsigned levels,
                          unsigned flags) {
  bool layered = (flags & (cudaArrayLayered | cudaArrayCubemap)) != 0;
  std::size_t bytes = 0;
  for (unsigned level = 0; level < levels; ++level) {
    bytes += bytesOf(format, extent);
    extent.width = std::max<std::size_t>(extent.width / 2, 1);
    extent.height /= extent.height > 1 ? 2 : 1;
    if (!layered)
      extent.depth /= extent.depth > 1 ? 2 : 1;
  }
  return bytes;
}

} // namespace

// An allocation of `bytes` bytes, which has the handle `handle` afterwards.
#define TALLY_HOOK_ALLOCATE(name, parameters, arguments, bytes, handle)                            \
  TALLY_HOOK(name, parameters, arguments, {                                                        \
    std::size_t wanted = bytes;                                                                    \
    return hooks().allocations().allocate(                                                         \
        table, wanted, [&] { return table.name arguments; },                                       \
        [&] { return Piece{handle, wanted}; });                                                    \
  })
#define TALLY_HOOK_FREE(name, parameters, handle)                                                  \
  TALLY_HOOK(name, parameters, (handle), {                                                         \
    return hooks().memory().release(                                                               \
        handle, [&] { return hooks().rules().drained([&] { return table.name(handle); }); });      \
  })

TALLY_HOOK_ALLOCATE(cudaMalloc, (void **devPtr, size_t size), (devPtr, size), size, *devPtr)
TALLY_HOOK_ALLOCATE(cudaMallocManaged, (void **devPtr, size_t size, unsigned int flags),
                    (devPtr, size, flags), size, *devPtr)
TALLY_HOOK_ALLOCATE(cudaMallocArray,
                    (cudaArray_t * array, const cudaChannelFormatDesc *desc, size_t width,
                     size_t height, unsigned int flags),
                    (array, desc, width, height, flags),
                    bytesOf(desc, cudaExtent{width, height, 0}), *array)
TALLY_HOOK_ALLOCATE(cudaMalloc3DArray,
                    (cudaArray_t * array, const cudaChannelFormatDesc *desc, cudaExtent extent,
                     unsigned int flags),
                    (array, desc, extent, flags), bytesOf(desc, extent), *array)
TALLY_HOOK_ALLOCATE(cudaMallocMipmappedArray,
                    (cudaMipmappedArray_t * mipmappedArray, const cudaChannelFormatDesc *desc,
                     cudaExtent extent, unsigned int numLevels, unsigned int flags),
                    (mipmappedArray, desc, extent, numLevels, flags),
                    bytesOfLevels(desc, extent, numLevels, flags), *mipmappedArray)

TALLY_HOOK(cudaMallocPitch, (void **devPtr, size_t *pitch, size_t width, size_t height),
           (devPtr, pitch, width, height), {
             return hooks().allocations().allocate(
                 table, pitched(width, height),
                 [&] { return table.cudaMallocPitch(devPtr, pitch, width, height); },
                 [&] { return Piece{*devPtr, *pitch * height}; });
           })
TALLY_HOOK(cudaMalloc3D, (cudaPitchedPtr * pitchedDevPtr, cudaExtent extent),
           (pitchedDevPtr, extent), {
             return hooks().allocations().allocate(
                 table, pitched(extent.width, extent.height * extent.depth),
                 [&] { return table.cudaMalloc3D(pitchedDevPtr, extent); },
                 [&] {
                   return Piece{pitchedDevPtr->ptr,
                                pitchedDevPtr->pitch * extent.height * extent.depth};
                 });
           })

TALLY_HOOK_PTSZ(cudaMallocAsync, (void **devPtr, size_t size, cudaStream_t stream),
                (devPtr, size, stream), {
                  return hooks().allocations().allocateAsync(
                      table, devPtr, size, stream,
                      [=, &table] { return table.cudaMallocAsync(devPtr, size, stream); });
                })
TALLY_HOOK_PTSZ(cudaMallocFromPoolAsync,
                (void **ptr, size_t size, cudaMemPool_t memPool, cudaStream_t stream),
                (ptr, size, memPool, stream), {
                  return hooks().allocations().allocateAsync(table, ptr, size, stream, [=, &table] {
                    return table.cudaMallocFromPoolAsync(ptr, size, memPool, stream);
                  });
                })
TALLY_HOOK_PTSZ(cudaFreeAsync, (void *devPtr, cudaStream_t stream), (devPtr, stream), {
  return hooks().allocations().freeAsync(
      table, devPtr, stream, [=, &table] { return table.cudaFreeAsync(devPtr, stream); });
})

TALLY_HOOK_FREE(cudaFree, (void *devPtr), devPtr)
TALLY_HOOK_FREE(cudaFreeArray, (cudaArray_t array), array)
TALLY_HOOK_FREE(cudaFreeMipmappedArray, (cudaMipmappedArray_t mipmappedArray), mipmappedArray)

TALLY_HOOK(cudaMemGetInfo, (size_t *free, size_t *total), (free, total),
           { return hooks().memory().info(table, free, total); })
