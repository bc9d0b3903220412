#include "program.h"

#include <numeric>

namespace tally::hooks {

namespace {
std::vector<int> counting(std::size_t count) {
  std::vector<int> values(count);
  std::iota(values.begin(), values.end(), 0);
  return values;
}
cudaMemoryType typeOf(const void *pointer) {
  cudaPointerAttributes attributes{};
  CHECK(cuda().cudaPointerGetAttributes(&attributes, pointer) == cudaSuccess);
  return attributes.type;
}
} // namespace

TEST_CASE("copies in all directions, and their bounds") {
  Ints a(8), b(8);
  std::vector<int> from = counting(8), to(8);
  CHECK(cuda().cudaMemcpy(a.device, from.data(), 32, cudaMemcpyHostToDevice) == cudaSuccess);
  CHECK(cuda().cudaMemcpy(b.device, a.device, 32, cudaMemcpyDefault) == cudaSuccess);
  CHECK(cuda().cudaMemcpy(to.data(), b.device, 32, cudaMemcpyDefault) == cudaSuccess);
  CHECK(to == from);
  CHECK(cuda().cudaMemcpy(a.device, from.data(), 33, cudaMemcpyHostToDevice) ==
        cudaErrorInvalidValue);
  CHECK(cuda().cudaMemcpy(to.data(), from.data(), 4, cudaMemcpyHostToDevice) ==
        cudaErrorInvalidValue);
  CHECK(cuda().cudaMemcpy(to.data(), from.data(), 4, cudaMemcpyDeviceToHost) ==
        cudaErrorInvalidValue);
  CHECK(cuda().cudaMemcpy(to.data(), from.data(), 4, static_cast<cudaMemcpyKind>(7)) ==
        cudaErrorInvalidMemcpyDirection);
  CHECK(cuda().cudaPeekAtLastError() == cudaErrorInvalidMemcpyDirection);
  CHECK(cuda().cudaGetLastError() == cudaErrorInvalidMemcpyDirection);
  CHECK(cuda().cudaGetLastError() == cudaSuccess);
}

TEST_CASE("rows and slices") {
  void *memory = nullptr;
  std::size_t pitch = 0;
  REQUIRE(cuda().cudaMallocPitch(&memory, &pitch, 12, 4) == cudaSuccess);
  CHECK(pitch % 32 == 0);
  CHECK(pitch >= 12);
  std::vector<int> from = counting(12), to(12, -1);
  CHECK(cuda().cudaMemset2D(memory, pitch, 0xff, 12, 4) == cudaSuccess);
  CHECK(cuda().cudaMemcpy2D(memory, pitch, from.data(), 12, 12, 3, cudaMemcpyHostToDevice) ==
        cudaSuccess);
  CHECK(cuda().cudaMemcpy2D(to.data(), 12, memory, pitch, 12, 4, cudaMemcpyDeviceToHost) ==
        cudaSuccess);
  CHECK(std::vector<int>(to.begin(), to.begin() + 9) ==
        std::vector<int>(from.begin(), from.begin() + 9));
  CHECK(to[9] == -1);
  CHECK(cuda().cudaMemcpy2D(memory, 8, from.data(), 12, 12, 3, cudaMemcpyHostToDevice) ==
        cudaErrorInvalidPitchValue);
  CHECK(cuda().cudaFree(memory) == cudaSuccess);

  cudaPitchedPtr volume{};
  REQUIRE(cuda().cudaMalloc3D(&volume, cudaExtent{8, 3, 2}) == cudaSuccess);
  cudaMemcpy3DParms parameters{};
  parameters.srcPtr = cudaPitchedPtr{from.data(), 8, 8, 3};
  parameters.dstPtr = volume;
  parameters.extent = cudaExtent{8, 3, 2};
  parameters.kind = cudaMemcpyHostToDevice;
  CHECK(cuda().cudaMemcpy3D(&parameters) == cudaSuccess);
  std::vector<int> slice(2);
  const auto *second = static_cast<const std::byte *>(volume.ptr) + volume.pitch * 3;
  CHECK(cuda().cudaMemcpy(slice.data(), second, 8, cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(slice == std::vector<int>{6, 7});
  CHECK(cuda().cudaFree(volume.ptr) == cudaSuccess);
  (void)cuda().cudaGetLastError();
}

TEST_CASE("arrays are copied by elements") {
  cudaArray_t array = nullptr;
  cudaChannelFormatDesc format =
      cuda().cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindSigned);
  REQUIRE(cuda().cudaMallocArray(&array, &format, 4, 2, 0) == cudaSuccess);
  std::vector<int> from = counting(8), to(2);
  CHECK(cuda().cudaMemcpy2DToArray(array, 0, 0, from.data(), 16, 16, 2, cudaMemcpyHostToDevice) ==
        cudaSuccess);
  CHECK(cuda().cudaMemcpy2DFromArray(to.data(), 8, array, 8, 1, 8, 1, cudaMemcpyDeviceToHost) ==
        cudaSuccess);
  CHECK(to == std::vector<int>{6, 7});
  CHECK(cuda().cudaFreeArray(array) == cudaSuccess);
}

TEST_CASE("a texture object over an array") {
  Program program({{ptxHeader + R"(
.visible .entry k(.param .u64 object, .param .u64 out) {
  .reg .b64 %t, %o; .reg .f32 %x, %f<5>; .reg .b32 %v;
  ld.param.u64 %t, [object]; ld.param.u64 %o, [out];
  mov.f32 %x, 0f40200000;
  tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%t, {%x, %x}];
  cvt.rzi.s32.f32 %v, %f1;
  st.global.u32 [%o], %v;
  ret;
})",
                    90}});
  std::vector<float> values(16);
  std::iota(values.begin(), values.end(), 0.0f);
  cudaArray_t array = nullptr;
  cudaChannelFormatDesc format =
      cuda().cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindFloat);
  REQUIRE(cuda().cudaMallocArray(&array, &format, 4, 4, 0) == cudaSuccess);
  CHECK(cuda().cudaMemcpy2DToArray(array, 0, 0, values.data(), 16, 16, 4, cudaMemcpyHostToDevice) ==
        cudaSuccess);
  cudaResourceDesc resource{};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  cudaTextureDesc reading{};
  reading.filterMode = cudaFilterModeLinear;
  reading.addressMode[0] = reading.addressMode[1] = cudaAddressModeClamp;
  cudaTextureObject_t object = 0;
  REQUIRE(cuda().cudaCreateTextureObject(&object, &resource, &reading, nullptr) == cudaSuccess);
  Ints out(1);
  CHECK(launch(program.kernel("k"), 1, 1, 0, nullptr, object, out.device) == cudaSuccess);
  CHECK(out.values()[0] == 10); // (2.5, 2.5) is the middle of element (2, 2)
  cudaResourceDesc back{};
  CHECK(cuda().cudaGetTextureObjectResourceDesc(&back, object) == cudaSuccess);
  CHECK(back.res.array.array == array);
  CHECK(cuda().cudaDestroyTextureObject(object) == cudaSuccess);
  CHECK(cuda().cudaDestroyTextureObject(object) == cudaErrorInvalidValue);
  CHECK(cuda().cudaFreeArray(array) == cudaSuccess);
  (void)cuda().cudaGetLastError();
}

TEST_CASE("kinds of memory, and what frees them") {
  void *device = nullptr, *managed = nullptr, *pinned = nullptr, *none = nullptr;
  std::vector<int> host(1024);
  REQUIRE(cuda().cudaMalloc(&device, 64) == cudaSuccess);
  REQUIRE(cuda().cudaMallocManaged(&managed, 64, cudaMemAttachGlobal) == cudaSuccess);
  REQUIRE(cuda().cudaHostAlloc(&pinned, 64, cudaHostAllocMapped) == cudaSuccess);
  CHECK(typeOf(device) == cudaMemoryTypeDevice);
  CHECK(typeOf(managed) == cudaMemoryTypeManaged);
  CHECK(typeOf(pinned) == cudaMemoryTypeHost);
  CHECK(typeOf(host.data()) == cudaMemoryTypeUnregistered);
  CHECK(cuda().cudaMalloc(&none, std::size_t{1} << 60) == cudaErrorMemoryAllocation);
  CHECK(cuda().cudaFree(pinned) == cudaErrorInvalidValue);
  CHECK(cuda().cudaFreeHost(device) == cudaErrorInvalidValue);
  CHECK(cuda().cudaFree(nullptr) == cudaSuccess);
  CHECK(cuda().cudaFree(device) == cudaSuccess);
  CHECK(cuda().cudaFree(device) == cudaErrorInvalidValue);
  CHECK(cuda().cudaFree(managed) == cudaSuccess);
  CHECK(cuda().cudaFreeHost(pinned) == cudaSuccess);
  (void)cuda().cudaGetLastError();
}

TEST_CASE("kernels use pinned and registered host memory in place") {
  Program program({{ptxHeader + storing("k", 42), 90}});
  const void *kernel = program.kernel("k");
  std::vector<int> host(1024);
  CHECK(cuda().cudaHostRegister(host.data(), host.size() * 4, 0) == cudaSuccess);
  CHECK(cuda().cudaHostRegister(host.data(), 4, 0) == cudaErrorHostMemoryAlreadyRegistered);
  void *mapped = nullptr;
  REQUIRE(cuda().cudaHostGetDevicePointer(&mapped, host.data(), 0) == cudaSuccess);
  CHECK(launch(kernel, 1, 1, 0, nullptr, static_cast<int *>(mapped) + 1023) == cudaSuccess);
  CHECK(cuda().cudaDeviceSynchronize() == cudaSuccess);
  CHECK(host[1023] == 42);
  CHECK(cuda().cudaHostUnregister(host.data()) == cudaSuccess);
  CHECK(cuda().cudaHostUnregister(host.data()) == cudaErrorHostMemoryNotRegistered);
  (void)cuda().cudaGetLastError();
}

TEST_CASE("a reset frees all memory") {
  std::size_t before = 0, after = 0, total = 0;
  REQUIRE(cuda().cudaMemGetInfo(&before, &total) == cudaSuccess);
  void *plain = nullptr, *managed = nullptr, *pinned = nullptr;
  std::vector<int> host(16);
  REQUIRE(cuda().cudaMalloc(&plain, 1 << 20) == cudaSuccess);
  REQUIRE(cuda().cudaMallocManaged(&managed, 64, cudaMemAttachGlobal) == cudaSuccess);
  REQUIRE(cuda().cudaHostAlloc(&pinned, 64, cudaHostAllocDefault) == cudaSuccess);
  REQUIRE(cuda().cudaHostRegister(host.data(), host.size() * 4, 0) == cudaSuccess);
  CHECK(cuda().cudaDeviceReset() == cudaSuccess);
  REQUIRE(cuda().cudaMemGetInfo(&after, &total) == cudaSuccess);
  CHECK(after >= before);
  CHECK(cuda().cudaFree(plain) == cudaErrorInvalidValue);
  CHECK(cuda().cudaFree(managed) == cudaErrorInvalidValue);
  CHECK(cuda().cudaFreeHost(pinned) == cudaErrorInvalidValue);
  CHECK(cuda().cudaHostUnregister(host.data()) == cudaErrorHostMemoryNotRegistered);
  (void)cuda().cudaGetLastError();
  Ints again(4);
  CHECK(cuda().cudaMemset(again.device, 0, 16) == cudaSuccess);
}

TEST_CASE("memory in stream order") {
  cudaStream_t stream = nullptr;
  REQUIRE(cuda().cudaStreamCreate(&stream) == cudaSuccess);
  void *memory = nullptr;
  REQUIRE(cuda().cudaMallocAsync(&memory, 4, stream) == cudaSuccess);
  int value = 0;
  CHECK(cuda().cudaMemsetAsync(memory, 1, 4, stream) == cudaSuccess);
  CHECK(cuda().cudaMemcpyAsync(&value, memory, 4, cudaMemcpyDeviceToHost, stream) == cudaSuccess);
  CHECK(cuda().cudaFreeAsync(memory, stream) == cudaSuccess);
  CHECK(cuda().cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(value == 0x01010101);
  CHECK(cuda().cudaFree(memory) == cudaErrorInvalidValue);
  CHECK(cuda().cudaStreamDestroy(stream) == cudaSuccess);
  CHECK(cuda().cudaStreamDestroy(stream) == cudaErrorInvalidResourceHandle);
  (void)cuda().cudaGetLastError();
}

} // namespace tally::hooks
