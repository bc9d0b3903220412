#include "device/cuda_device.h"

#include "base/cpus.h"
#include "base/duration_estimate.h"
#include "base/uuid_text.h"
#include "device/bandwidth.h"
#include "device/driver_environment.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

namespace tally::runtime {

namespace {

/// Without opting in a block has at most this much shared memory (CUDA C++ Programming Guide,
/// "Compute Capabilities").
constexpr std::uint32_t sharedWithoutOptIn = 48u << 10;
/// Blocks of a cluster that every device with clusters can launch.
constexpr std::uint32_t portableClusterBlocks = 8;

/// Serial of the device whose context is current in this thread; 0: none. A serial, since a new
/// device may have the address of an old one.
thread_local std::uint64_t currentSerial = 0;

} // namespace

Result<void> CudaDevice::makeCurrent() {
  if (currentSerial == serial)
    return {};
  TALLY_CUDA_TRY(driver, cuCtxSetCurrent, context);
  currentSerial = serial;
  return {};
}

Result<void> CudaDevice::open() {
  prepareDriverEnvironment();
  TALLY_CUDA_TRY(driver, cuInit, 0);
  TALLY_CUDA_TRY(driver, cuDeviceGet, &device, 0);
  // A synchronising thread spins: waking it from a blocking wait costs more time than a short
  // request may lose. Where cores are scarce the thread yields its core between looks.
  unsigned wait = hasCpusToPoll() ? CU_CTX_SCHED_SPIN : CU_CTX_SCHED_YIELD;
  TALLY_CUDA_TRY(driver, cuDevicePrimaryCtxSetFlags, device, wait);
  TALLY_CUDA_TRY(driver, cuDevicePrimaryCtxRetain, &context, device);
  if (Result<void> current = makeCurrent(); !current)
    return current;
  TALLY_CUDA_TRY(driver, cuCtxGetStreamPriorityRange, &lowest, &highest);
  Result<MappedMemory> word = allocateMapped(sizeof(std::uint64_t));
  if (!word)
    return word.error();
  triggerWord = *word;
  mostStreams = streamsWithOwnConnection();
  return describe();
}

Result<void> CudaDevice::describe() {
  std::array<char, 256> name{};
  TALLY_CUDA_TRY(driver, cuDeviceGetName, name.data(), static_cast<int>(name.size()), device);
  facts.name = name.data();
  TALLY_CUDA_TRY(driver, cuDriverGetVersion, &facts.driverVersion);
  CUuuid uuid{};
  TALLY_CUDA_TRY(driver, cuDeviceGetUuid, &uuid, device);
  facts.uuid = uuidText(uuid.bytes);
  std::array<int, 11> values{};
  constexpr std::array<CUdevice_attribute, 11> wanted = {
      CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
      CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
      CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
      CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
      CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS,
      CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR,
      CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR,
      CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
      CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE,
      CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH,
      CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR};
  for (std::size_t i = 0; i < wanted.size(); ++i)
    TALLY_CUDA_TRY(driver, cuDeviceGetAttribute, &values[i], wanted[i], device);
  facts.arch = static_cast<std::uint32_t>(values[0] * 10 + values[1]);
  facts.smCount = static_cast<std::uint32_t>(values[2]);
  facts.maxSharedBytesPerBlock = static_cast<std::uint32_t>(values[3]);
  facts.threadsPerSm = static_cast<std::uint32_t>(values[5]);
  facts.registersPerSm = static_cast<std::uint32_t>(values[6]);
  facts.sharedBytesPerSm = static_cast<std::uint32_t>(values[7]);
  facts.bandwidth = bandwidthOf(values[8], values[9]);
  facts.blocksPerSm = static_cast<std::uint32_t>(values[10]);
  facts.launchTurn = usualLaunchTurn;
  if (values[4] == 0)
    return Error{facts.name + ": the device has no 64-bit stream writes, by which best-effort work "
                              "is told to yield"};
  return {};
}

CudaDevice::~CudaDevice() {
  if (!context)
    return;
  // Ignore errors: no caller is left, and the driver frees the resources of a failed context.
  if (makeCurrent()) {
    for (CUstream stream : streams) {
      driver.TALLY_CUDA_ENTRY(cuStreamSynchronize)(stream);
      driver.TALLY_CUDA_ENTRY(cuStreamDestroy)(stream);
    }
    confined.destroyAll();
    for (const auto &[module, functions] : modules)
      if (module)
        driver.TALLY_CUDA_ENTRY(cuModuleUnload)(module);
    for (void *memory : hostMemory)
      driver.TALLY_CUDA_ENTRY(cuMemFreeHost)(memory);
    driver.TALLY_CUDA_ENTRY(cuCtxSetCurrent)(nullptr);
  }
  driver.TALLY_CUDA_ENTRY(cuDevicePrimaryCtxRelease)(device);
}

/// Loads a cubin of exactly this architecture, else the newest PTX that is not newer than it.
Result<ModuleId> CudaDevice::loadModule(const bundle::Bundle &bundle) {
  if (Result<void> current = makeCurrent(); !current)
    return current.error();
  const bundle::Image *best = nullptr;
  for (const bundle::Image &image : bundle.images) {
    bool cubin = image.format == bundle::ImageFormat::Cubin;
    if (cubin ? image.arch != facts.arch : image.arch > facts.arch)
      continue;
    bool bestIsCubin = best && best->format == bundle::ImageFormat::Cubin;
    if (!best || (cubin && !bestIsCubin) || (!cubin && !bestIsCubin && image.arch > best->arch))
      best = &image;
  }
  if (!best)
    return Error{"the bundle holds neither machine code for sm_" + std::to_string(facts.arch) +
                 " nor PTX that it can be made from"};
  Result<CUmodule> loaded = loadImage(*best);
  if (!loaded)
    return loaded.error();
  std::unique_lock lock(mutex);
  modules[*loaded];
  return static_cast<ModuleId>(reinterpret_cast<std::uint64_t>(*loaded));
}

Result<CUmodule> CudaDevice::loadImage(const bundle::Image &image) {
  std::array<char, 4096> log{};
  std::array<CUjit_option, 2> options = {CU_JIT_ERROR_LOG_BUFFER,
                                         CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  std::array<void *, 2> values = {log.data(), reinterpret_cast<void *>(log.size() - 1)};
  CUmodule module = nullptr;
  // c_str() ends with the NUL that PTX needs.
  CUresult code = driver.TALLY_CUDA_ENTRY(cuModuleLoadDataEx)(
      &module, image.bytes.c_str(), options.size(), options.data(), values.data());
  if (code == CUDA_SUCCESS)
    return module;
  Error error = driver.failure("cuModuleLoadDataEx", code);
  if (log[0] != '\0')
    error.message += std::string(": ") + log.data();
  return error;
}

Result<FunctionAttributes> CudaDevice::attributes(FunctionId function) {
  if (Result<void> current = makeCurrent(); !current)
    return current.error();
  CudaFunction &record = functionOf(function);
  int registers = 0, threads = 0;
  TALLY_CUDA_TRY(driver, cuFuncGetAttribute, &registers, CU_FUNC_ATTRIBUTE_NUM_REGS, record.handle);
  TALLY_CUDA_TRY(driver, cuFuncGetAttribute, &threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
                 record.handle);
  return FunctionAttributes{static_cast<std::uint32_t>(registers), record.staticShared,
                            static_cast<std::uint32_t>(threads)};
}

/// Opts the function in for more shared memory than blocks have by default. The limit only grows,
/// so that threads that launch with several sizes do not lower it for each other.
Result<void> CudaDevice::allowShared(CudaFunction &function, std::uint32_t dynamicSharedBytes) {
  if (function.staticShared + dynamicSharedBytes <= sharedWithoutOptIn ||
      dynamicSharedBytes <= function.dynamicAllowed.load(std::memory_order_acquire))
    return {};
  std::unique_lock lock(mutex);
  if (dynamicSharedBytes <= function.dynamicAllowed.load())
    return {};
  TALLY_CUDA_TRY(driver, cuFuncSetAttribute, function.handle,
                 CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                 static_cast<int>(dynamicSharedBytes));
  function.dynamicAllowed.store(dynamicSharedBytes, std::memory_order_release);
  return {};
}

/// Opts the function in for clusters that not every device can launch.
Result<void> CudaDevice::allowCluster(CudaFunction &function, const Dim3 &cluster) {
  if (cluster.count() <= portableClusterBlocks ||
      function.largeClusters.load(std::memory_order_acquire))
    return {};
  TALLY_CUDA_TRY(driver, cuFuncSetAttribute, function.handle,
                 CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1);
  function.largeClusters.store(true, std::memory_order_release);
  return {};
}

Result<std::uint32_t> CudaDevice::residentBlocksPerSm(FunctionId function, Dim3 block,
                                                      std::uint32_t dynamicSharedBytes) {
  if (Result<void> current = makeCurrent(); !current)
    return current.error();
  CudaFunction &record = functionOf(function);
  if (std::uint64_t{record.staticShared} + dynamicSharedBytes > facts.maxSharedBytesPerBlock ||
      block.count() > 1024)
    return 0u;
  if (Result<void> allowed = allowShared(record, dynamicSharedBytes); !allowed)
    return allowed.error();
  int blocks = 0;
  TALLY_CUDA_TRY(driver, cuOccupancyMaxActiveBlocksPerMultiprocessor, &blocks, record.handle,
                 static_cast<int>(block.count()), dynamicSharedBytes);
  return static_cast<std::uint32_t>(blocks);
}

Result<DevicePtr> CudaDevice::allocate(std::size_t bytes) {
  if (Result<void> current = makeCurrent(); !current)
    return current.error();
  CUdeviceptr pointer = 0;
  CUresult code = driver.TALLY_CUDA_ENTRY(cuMemAlloc)(&pointer, bytes);
  if (code != CUDA_SUCCESS)
    return Error{std::to_string(bytes) + " bytes: " + driver.failure("cuMemAlloc", code).message};
  return DevicePtr{pointer};
}

Result<void> CudaDevice::free(DevicePtr pointer) {
  if (Result<void> current = makeCurrent(); !current)
    return current;
  TALLY_CUDA_TRY(driver, cuMemFree, static_cast<CUdeviceptr>(pointer));
  return {};
}

Result<MappedMemory> CudaDevice::allocateMapped(std::size_t bytes) {
  if (Result<void> current = makeCurrent(); !current)
    return current.error();
  void *host = nullptr;
  TALLY_CUDA_TRY(driver, cuMemHostAlloc, &host, bytes,
                 CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE);
  {
    std::unique_lock lock(mutex);
    hostMemory.push_back(host);
  }
  std::memset(host, 0, bytes);
  CUdeviceptr pointer = 0;
  TALLY_CUDA_TRY(driver, cuMemHostGetDevicePointer, &pointer, host, 0);
  return MappedMemory{static_cast<std::byte *>(host), DevicePtr{pointer}};
}

Result<void> CudaDevice::launch(StreamId stream, FunctionId function, const LaunchShape &shape,
                                std::span<const std::byte> parameters) {
  if (Result<void> current = makeCurrent(); !current)
    return current;
  CudaFunction &record = functionOf(function);
  if (Result<void> allowed = allowShared(record, shape.dynamicSharedBytes); !allowed)
    return allowed;
  std::size_t size = parameters.size();
  // The driver copies the buffer during the call and does not write to it.
  std::array<void *, 5> packed = {CU_LAUNCH_PARAM_BUFFER_POINTER,
                                  const_cast<std::byte *>(parameters.data()),
                                  CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
  CUlaunchConfig config{};
  config.gridDimX = shape.grid.x, config.gridDimY = shape.grid.y, config.gridDimZ = shape.grid.z;
  config.blockDimX = shape.block.x, config.blockDimY = shape.block.y;
  config.blockDimZ = shape.block.z;
  config.sharedMemBytes = shape.dynamicSharedBytes;
  config.hStream = streamOf(stream);
  CUlaunchAttribute cluster{};
  Dim3 extents = shape.cluster.x != 0 ? shape.cluster : record.demanded;
  if (Result<void> allowed = allowCluster(record, extents); !allowed)
    return allowed;
  // Do not repeat a cluster that the kernel demands at compile time.
  if (shape.cluster.x != 0 && record.demanded.x == 0) {
    cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    cluster.value.clusterDim.x = shape.cluster.x;
    cluster.value.clusterDim.y = shape.cluster.y;
    cluster.value.clusterDim.z = shape.cluster.z;
    config.attrs = &cluster;
    config.numAttrs = 1;
  }
  TALLY_CUDA_TRY(driver, cuLaunchKernelEx, &config, record.handle, nullptr,
                 size == 0 ? nullptr : packed.data());
  return {};
}

Result<std::unique_ptr<Device>> openCudaDevice() {
  Result<const CudaDriver *> driver = CudaDriver::load();
  if (!driver)
    return driver.error();
  auto device = std::make_unique<CudaDevice>(**driver);
  if (Result<void> opened = device->open(); !opened)
    return opened.error();
  return std::unique_ptr<Device>(std::move(device));
}

} // namespace tally::runtime
