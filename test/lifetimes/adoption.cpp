// A stream and a function that the program makes by the driver, adopted by the runtime.
#include "device/cuda_driver.h"
#include "lifetimes.h"

#include <array>

namespace tally::runtime {

namespace {

/// out[0] += 1
constexpr const char *countPtx = R"(.version 8.0
.target sm_80
.address_size 64
.visible .entry count(.param .u64 out)
{
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [out];
  ld.global.u64 %rd2, [%rd1];
  add.u64 %rd2, %rd2, 1;
  st.global.u64 [%rd1], %rd2;
  ret;
})";

const CudaDriver *driver() {
  Result<const CudaDriver *> loaded = CudaDriver::load();
  return loaded ? *loaded : nullptr;
}

void mustCall(CUresult code, const char *call) {
  if (code != CUDA_SUCCESS)
    must(Result<void>(driver()->failure(call, code)));
}

#define CALL(name, ...) mustCall(driver()->TALLY_CUDA_ENTRY(name)(__VA_ARGS__), #name)

/// The program's own launch, without the runtime.
void launchOwn(CUfunction function, CUstream stream, DevicePtr out) {
  std::array<void *, 1> parameters = {&out};
  CUlaunchConfig config{};
  config.gridDimX = config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = config.blockDimY = config.blockDimZ = 1;
  config.hStream = stream;
  CALL(cuLaunchKernelEx, &config, function, parameters.data(), nullptr);
}

} // namespace

std::optional<std::size_t> freeDeviceMemory() {
  auto ask = reinterpret_cast<CUresult(CUDAAPI *)(std::size_t *, std::size_t *)>(
      CudaDriver::find("cuMemGetInfo_v2"));
  std::size_t free = 0, total = 0;
  if (!ask || ask(&free, &total) != CUDA_SUCCESS)
    return std::nullopt;
  return free;
}

void adoptThem(Runtime &runtime, int rounds) {
  CUdevice device = 0;
  CUcontext context = nullptr;
  CALL(cuDeviceGet, &device, 0);
  CALL(cuDevicePrimaryCtxRetain, &context, device);
  CALL(cuCtxSetCurrent, context);
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  CUstream stream = nullptr;
  CALL(cuModuleLoadDataEx, &module, countPtx, 0, nullptr, nullptr);
  CALL(cuModuleGetFunction, &function, module, "count");
  CALL(cuStreamCreateWithPriority, &stream, CU_STREAM_NON_BLOCKING, -1);
  auto nativeStream = reinterpret_cast<std::uint64_t>(stream);
  auto nativeFunction = reinterpret_cast<std::uint64_t>(function);

  Client server = must(runtime.createClient(Class::High, "server"));
  Client trainer = must(runtime.createClient(Class::BestEffort, "trainer"));
  Stream training = must(runtime.createStream(trainer));
  DevicePtr out = must(runtime.allocate(sizeof(std::uint64_t)));
  must(runtime.fill(training, out, std::byte{0}, sizeof(std::uint64_t)));
  must(runtime.synchronize(training));
  for (std::uint64_t wrong = 0; wrong <= 2; ++wrong)
    mustBe(!runtime.adoptStream(server, wrong), "a default stream was adopted");
  mustBe(!runtime.adoptStream(trainer, nativeStream), "a stream was adopted for best effort");

  const LaunchShape shape{{1}, {1}};
  std::uint64_t expected = 0, value = 0;
  auto bytes = std::as_writable_bytes(std::span(&value, 1));
  measure("adoption", rounds, [&] {
    Stream serving = must(runtime.adoptStream(server, nativeStream));
    Kernel kernel = must(runtime.adoptFunction(nativeFunction, "count"));
    mustBe(!runtime.launch(serving, kernel, shape, Arguments(1)), "arguments of a wrong size");
    must(runtime.launch(training, kernel, shape, Arguments(out)));
    must(runtime.synchronize(training));
    must(runtime.launch(serving, kernel, shape, Arguments(out)));
    launchOwn(function, stream, out); // in order with the runtime's
    must(runtime.launch(serving, kernel, shape, Arguments(out)));
    must(runtime.copyToHost(serving, bytes, out));
    must(runtime.destroyStream(serving));
    expected += 4;
    mustBe(value == expected, "what the adopted function computed");
    must(runtime.forget(kernel));
    // Both still belong to the program and work as before.
    launchOwn(function, stream, out);
    CALL(cuStreamSynchronize, stream);
    ++expected;
  });
  must(runtime.destroyStream(training));
  must(runtime.destroyClient(trainer));
  must(runtime.destroyClient(server));
  CALL(cuStreamDestroy, stream);
  CALL(cuModuleUnload, module);
  must(runtime.free(out));
  CALL(cuDevicePrimaryCtxRelease, device);
}

} // namespace tally::runtime
