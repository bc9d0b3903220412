// Copies and fills.
#include "driver.h"

#include "emulated_cuda/copies.h"

namespace tally::preload_driver {

namespace {

using hooks::emulated::Context;
using hooks::emulated::Wait;

void *hostOf(const void *pointer) { return const_cast<void *>(pointer); }

cudaError_t copied(void *to, const void *from, std::size_t bytes, cudaMemcpyKind kind,
                   CUstream stream, Wait wait) {
  return hooks::emulated::copy(*Context::get().device(), stream,
                               hooks::emulated::linear(to, from, bytes), kind, wait);
}

/// One side of a copy of rows. False for arrays, which are not served.
bool sideOf(CUmemorytype type, const void *host, CUdeviceptr device, std::size_t x, std::size_t y,
            std::size_t pitch, hooks::emulated::Side &side) {
  if (type == CU_MEMORYTYPE_ARRAY)
    return false;
  auto *begin =
      static_cast<std::byte *>(type == CU_MEMORYTYPE_HOST ? hostOf(host) : pointerOf(device));
  side = {begin + y * pitch + x, pitch, 0};
  return true;
}

cudaError_t copied2D(const CUDA_MEMCPY2D *rows, CUstream stream, Wait wait) {
  if (!rows)
    return cudaErrorInvalidValue;
  hooks::emulated::Box box;
  auto pitchOf = [&](std::size_t pitch) { return pitch ? pitch : rows->WidthInBytes; };
  if (!sideOf(rows->dstMemoryType, rows->dstHost, rows->dstDevice, rows->dstXInBytes, rows->dstY,
              pitchOf(rows->dstPitch), box.to) ||
      !sideOf(rows->srcMemoryType, rows->srcHost, rows->srcDevice, rows->srcXInBytes, rows->srcY,
              pitchOf(rows->srcPitch), box.from))
    return cudaErrorNotSupported;
  box.width = rows->WidthInBytes;
  box.height = rows->Height;
  return hooks::emulated::copy(*Context::get().device(), stream, box, cudaMemcpyDefault, wait);
}

template <class Value>
cudaError_t filled(CUdeviceptr to, Value value, std::size_t count, CUstream stream) {
  if (to % sizeof(Value) != 0)
    return cudaErrorInvalidValue;
  std::size_t bytes = count * sizeof(Value);
  hooks::emulated::Fill fill{{static_cast<std::byte *>(pointerOf(to)), bytes, bytes},
                             static_cast<int>(value),
                             bytes,
                             1,
                             1,
                             sizeof(Value)};
  return hooks::emulated::fill(*Context::get().device(), stream, fill);
}

/// Reports the device's state first, as calls of the emulated runtime do.
template <class Call> cudaError_t served(Call call) {
  cudaError_t bad = Context::get().health();
  return bad == cudaSuccess ? call() : bad;
}

} // namespace

} // namespace tally::preload_driver

using namespace tally::preload_driver;

// A copy, and the same copy in the order of a stream.
#define TALLY_COPY_FORMS(name, version, to_type, to, from_type, from, kind)                        \
  TALLY_DEFAULT_STREAM_FORMS(                                                                      \
      name##version, (to_type target, from_type source, size_t bytes),                             \
      served([&] { return copied(to(target), from(source), bytes, kind, stream, Wait::Yes); }))    \
  TALLY_STREAM_FORMS(                                                                              \
      name##Async##version, (to_type target, from_type source, size_t bytes, CUstream stream),     \
      served([&] { return copied(to(target), from(source), bytes, kind, stream, Wait::No); }))

// A fill, and the same fill in the order of a stream.
#define TALLY_FILL_FORMS(name, type)                                                               \
  TALLY_DEFAULT_STREAM_FORMS(name##_v2, (CUdeviceptr to, type value, size_t count),                \
                             served([&] { return filled(to, value, count, stream); }))             \
  TALLY_STREAM_FORMS(name##Async, (CUdeviceptr to, type value, size_t count, CUstream stream),     \
                     served([&] { return filled(to, value, count, stream); }))

extern "C" {

TALLY_COPY_FORMS(cuMemcpy, , CUdeviceptr, pointerOf, CUdeviceptr, pointerOf, cudaMemcpyDefault)
TALLY_COPY_FORMS(cuMemcpyHtoD, _v2, CUdeviceptr, pointerOf, const void *, hostOf,
                 cudaMemcpyHostToDevice)
TALLY_COPY_FORMS(cuMemcpyDtoH, _v2, void *, hostOf, CUdeviceptr, pointerOf, cudaMemcpyDeviceToHost)
TALLY_COPY_FORMS(cuMemcpyDtoD, _v2, CUdeviceptr, pointerOf, CUdeviceptr, pointerOf,
                 cudaMemcpyDeviceToDevice)

TALLY_DEFAULT_STREAM_FORMS(cuMemcpy2D_v2, (const CUDA_MEMCPY2D *rows),
                           served([&] { return copied2D(rows, stream, Wait::Yes); }))
TALLY_STREAM_FORMS(cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *rows, CUstream stream),
                   served([&] { return copied2D(rows, stream, Wait::No); }))

TALLY_FILL_FORMS(cuMemsetD8, unsigned char)
TALLY_FILL_FORMS(cuMemsetD16, unsigned short)
TALLY_FILL_FORMS(cuMemsetD32, unsigned)

} // extern "C"
