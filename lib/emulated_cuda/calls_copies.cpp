// Copies, fills, and hints about the place of memory, which has no effect here: there is only one
// place.
#include "calls.h"
#include "copies.h"
#include "memory.h"
#include "modules.h"
#include "streams.h"

#include <cstring>

namespace tally::hooks::emulated {

namespace {

cudaError_t copied(cudaStream_t stream, const Box &box, cudaMemcpyKind kind, Wait wait) {
  return served(
      [&](runtime::EmulatorDevice &device) { return copy(device, stream, box, kind, wait); });
}

cudaError_t filled(cudaStream_t stream, const Fill &what) {
  return served([&](runtime::EmulatorDevice &device) { return fill(device, stream, what); });
}

Side sideOf(const void *pointer, std::size_t pitch, std::size_t height = 1) {
  return {static_cast<std::byte *>(const_cast<void *>(pointer)), pitch, pitch * height};
}

Side sideOf(cudaArray_const_t handle, std::size_t offset, std::size_t row) {
  const auto &array = *reinterpret_cast<const Array *>(handle);
  return {hostPointer(array.memory) + row * array.pitch() + offset, array.pitch(),
          array.pitch() * array.rows()};
}

cudaError_t copied3D(cudaStream_t stream, const cudaMemcpy3DParms *parameters, Wait wait) {
  Box box;
  if (!parameters)
    return remember(cudaErrorInvalidValue);
  if (cudaError_t bad = boxOf(*parameters, box); bad != cudaSuccess)
    return remember(bad);
  return copied(stream, box, parameters->kind, wait);
}

cudaError_t copiedSymbol(cudaStream_t stream, const void *symbol, std::size_t offset, Box box,
                         cudaMemcpyKind kind, Wait wait, bool writes) {
  return served([&](runtime::EmulatorDevice &device) {
    emulator::ProgramVariable variable;
    if (cudaError_t bad = Modules::get().variable(symbol, variable); bad != cudaSuccess)
      return bad;
    if (offset > variable.bytes || box.width > variable.bytes - offset)
      return cudaErrorInvalidValue;
    if (kind == (writes ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice) ||
        kind == cudaMemcpyHostToHost)
      return cudaErrorInvalidMemcpyDirection;
    (writes ? box.to : box.from).begin = hostPointer(variable.address + offset);
    return copy(device, stream, box, kind, wait);
  });
}

constexpr cudaMemcpyKind anyKind = cudaMemcpyDefault;

} // namespace

// The `_ptds` form of a call is ordered on the thread's own default stream.
#define TALLY_BOTH_STREAMS(name, parameters, ...)                                                  \
  cudaError_t Calls::name parameters {                                                             \
    constexpr cudaStream_t stream = nullptr;                                                       \
    return __VA_ARGS__;                                                                            \
  }                                                                                                \
  cudaError_t Calls::name##_ptds parameters {                                                      \
    const cudaStream_t stream = cudaStreamPerThread;                                               \
    return __VA_ARGS__;                                                                            \
  }

TALLY_BOTH_STREAMS(cudaMemcpy, (void *to, const void *from, size_t bytes, cudaMemcpyKind kind),
                   copied(stream, linear(to, from, bytes), kind, Wait::Yes))
TALLY_BOTH_STREAMS(cudaMemcpy2D,
                   (void *to, size_t toPitch, const void *from, size_t fromPitch, size_t width,
                    size_t height, cudaMemcpyKind kind),
                   copied(stream, {sideOf(to, toPitch), sideOf(from, fromPitch), width, height, 1},
                          kind, Wait::Yes))
TALLY_BOTH_STREAMS(cudaMemcpy3D, (const cudaMemcpy3DParms *parameters),
                   copied3D(stream, parameters, Wait::Yes))
TALLY_BOTH_STREAMS(cudaMemcpyToSymbol,
                   (const void *symbol, const void *from, size_t bytes, size_t offset,
                    cudaMemcpyKind kind),
                   copiedSymbol(stream, symbol, offset, linear(nullptr, from, bytes), kind,
                                Wait::Yes, true))
TALLY_BOTH_STREAMS(cudaMemcpyFromSymbol,
                   (void *to, const void *symbol, size_t bytes, size_t offset, cudaMemcpyKind kind),
                   copiedSymbol(stream, symbol, offset, linear(to, nullptr, bytes), kind, Wait::Yes,
                                false))
TALLY_BOTH_STREAMS(cudaMemcpy2DToArray,
                   (cudaArray_t to, size_t offset, size_t row, const void *from, size_t pitch,
                    size_t width, size_t height, cudaMemcpyKind kind),
                   copied(stream, {sideOf(to, offset, row), sideOf(from, pitch), width, height, 1},
                          kind, Wait::Yes))
TALLY_BOTH_STREAMS(cudaMemcpy2DFromArray,
                   (void *to, size_t pitch, cudaArray_const_t from, size_t offset, size_t row,
                    size_t width, size_t height, cudaMemcpyKind kind),
                   copied(stream, {sideOf(to, pitch), sideOf(from, offset, row), width, height, 1},
                          kind, Wait::Yes))
TALLY_BOTH_STREAMS(cudaMemcpyToArray,
                   (cudaArray_t to, size_t offset, size_t row, const void *from, size_t bytes,
                    cudaMemcpyKind kind),
                   copied(stream, {sideOf(to, offset, row), sideOf(from, bytes), bytes, 1, 1}, kind,
                          Wait::Yes))
TALLY_BOTH_STREAMS(cudaMemcpyFromArray,
                   (void *to, cudaArray_const_t from, size_t offset, size_t row, size_t bytes,
                    cudaMemcpyKind kind),
                   copied(stream, {sideOf(to, bytes), sideOf(from, offset, row), bytes, 1, 1}, kind,
                          Wait::Yes))
TALLY_BOTH_STREAMS(cudaMemset, (void *to, int value, size_t bytes),
                   filled(stream, {sideOf(to, bytes), value, bytes}))
TALLY_BOTH_STREAMS(cudaMemset2D, (void *to, size_t pitch, int value, size_t width, size_t height),
                   filled(stream, {sideOf(to, pitch), value, width, height}))
TALLY_BOTH_STREAMS(cudaMemset3D, (cudaPitchedPtr to, int value, cudaExtent extent),
                   filled(stream, {sideOf(to.ptr, to.pitch, to.ysize), value, extent.width,
                                   extent.height, extent.depth}))
#undef TALLY_BOTH_STREAMS

cudaError_t Calls::cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                                   cudaStream_t stream) {
  return copied(stream, linear(to, from, bytes), kind, Wait::No);
}

cudaError_t Calls::cudaMemcpyPeer(void *to, int, const void *from, int, size_t bytes) {
  return copied(nullptr, linear(to, from, bytes), anyKind, Wait::Yes);
}

cudaError_t Calls::cudaMemcpyPeerAsync(void *to, int, const void *from, int, size_t bytes,
                                       cudaStream_t stream) {
  return copied(stream, linear(to, from, bytes), anyKind, Wait::No);
}

cudaError_t Calls::cudaMemcpy2DAsync(void *to, size_t toPitch, const void *from, size_t fromPitch,
                                     size_t width, size_t height, cudaMemcpyKind kind,
                                     cudaStream_t stream) {
  return copied(stream, {sideOf(to, toPitch), sideOf(from, fromPitch), width, height, 1}, kind,
                Wait::No);
}

cudaError_t Calls::cudaMemcpy3DAsync(const cudaMemcpy3DParms *parameters, cudaStream_t stream) {
  return copied3D(stream, parameters, Wait::No);
}

cudaError_t Calls::cudaMemcpy2DToArrayAsync(cudaArray_t to, size_t offset, size_t row,
                                            const void *from, size_t pitch, size_t width,
                                            size_t height, cudaMemcpyKind kind,
                                            cudaStream_t stream) {
  return copied(stream, {sideOf(to, offset, row), sideOf(from, pitch), width, height, 1}, kind,
                Wait::No);
}

cudaError_t Calls::cudaMemcpy2DFromArrayAsync(void *to, size_t pitch, cudaArray_const_t from,
                                              size_t offset, size_t row, size_t width,
                                              size_t height, cudaMemcpyKind kind,
                                              cudaStream_t stream) {
  return copied(stream, {sideOf(to, pitch), sideOf(from, offset, row), width, height, 1}, kind,
                Wait::No);
}

cudaError_t Calls::cudaMemcpyToSymbolAsync(const void *symbol, const void *from, size_t bytes,
                                           size_t offset, cudaMemcpyKind kind,
                                           cudaStream_t stream) {
  return copiedSymbol(stream, symbol, offset, linear(nullptr, from, bytes), kind, Wait::No, true);
}

cudaError_t Calls::cudaMemcpyFromSymbolAsync(void *to, const void *symbol, size_t bytes,
                                             size_t offset, cudaMemcpyKind kind,
                                             cudaStream_t stream) {
  return copiedSymbol(stream, symbol, offset, linear(to, nullptr, bytes), kind, Wait::No, false);
}

cudaError_t Calls::cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream) {
  return filled(stream, {sideOf(to, bytes), value, bytes});
}

cudaError_t Calls::cudaMemset2DAsync(void *to, size_t pitch, int value, size_t width, size_t height,
                                     cudaStream_t stream) {
  return filled(stream, {sideOf(to, pitch), value, width, height});
}

cudaError_t Calls::cudaMemset3DAsync(cudaPitchedPtr to, int value, cudaExtent extent,
                                     cudaStream_t stream) {
  return filled(stream, {sideOf(to.ptr, to.pitch, to.ysize), value, extent.width, extent.height,
                         extent.depth});
}

// Hints -------------------------------------------------------------------------------------------

namespace {
/// A hint about managed memory: succeeds where the whole range is allocated.
cudaError_t hinted(const void *pointer, std::size_t bytes) {
  return served([&](runtime::EmulatorDevice &) {
    Allocation found = Memory::get().find(pointer);
    auto begin = reinterpret_cast<std::uintptr_t>(pointer);
    bool isInside = found.bytes != 0 && bytes <= found.begin + found.bytes - begin;
    return isInside ? cudaSuccess : cudaErrorInvalidValue;
  });
}
} // namespace

cudaError_t Calls::cudaMemPrefetchAsync(const void *pointer, size_t bytes, cudaMemLocation,
                                        unsigned, cudaStream_t) {
  return hinted(pointer, bytes);
}

cudaError_t Calls::cudaMemAdvise(const void *pointer, size_t bytes, cudaMemoryAdvise,
                                 cudaMemLocation) {
  return hinted(pointer, bytes);
}

cudaError_t Calls::cudaStreamAttachMemAsync(cudaStream_t, void *pointer, size_t, unsigned) {
  return hinted(pointer, 0);
}

} // namespace tally::hooks::emulated
