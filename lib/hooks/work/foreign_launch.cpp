#include "work/foreign_launch.h"

#include "state/counts_in_words.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

namespace tally::hooks {

namespace {

/// CUDA limits a kernel's parameters to 32,764 bytes since 12.1; each takes at least one byte.
constexpr std::size_t maxParameters = 32764;

/// CU_LAUNCH_PARAM_BUFFER_POINTER and ..._SIZE of cuLaunchKernel's `extra`.
std::optional<runtime::SharedBytes> copyBuffer(void **extra) {
  const void *buffer = nullptr;
  const std::size_t *size = nullptr;
  for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
      buffer = extra[1];
    else if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE)
      size = static_cast<const std::size_t *>(extra[1]);
    else
      return std::nullopt;
  }
  if (!buffer || !size)
    return std::nullopt;
  return runtime::SharedBytes({static_cast<const std::byte *>(buffer), *size});
}

std::optional<runtime::SharedBytes> copyEach(const ForeignKernel &kernel, void **arguments) {
  // A kernel without parameters looks like a kernel that the driver does not know.
  if (kernel.parameters.empty())
    return std::nullopt;
  return copyArguments(kernel.parameters, arguments);
}

/// The attributes that a later launch on another stream keeps, the same as for the application's
/// own launches. Returns nothing where the launch has others.
std::optional<std::vector<CUlaunchAttribute>>
copyAttributes(std::span<const CUlaunchAttribute> given, LaunchShape &shape) {
  std::vector<CUlaunchAttribute> kept;
  for (const CUlaunchAttribute &each : given)
    switch (each.id) {
    case CU_LAUNCH_ATTRIBUTE_IGNORE:
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
      break;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
      shape.cluster = {each.value.clusterDim.x, each.value.clusterDim.y, each.value.clusterDim.z};
      [[fallthrough]];
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
    case static_cast<CUlaunchAttributeID>(14): // the carveout; 12.4 has no name for it
      kept.push_back(each);
      break;
    default:
      return std::nullopt;
    }
  return kept;
}

/// The CUfunction that the driver answers questions about. Libraries that load their code by
/// cuLibraryLoadData launch a CUkernel in place of a CUfunction; questions do not take a CUkernel.
CUfunction functionOf(const DriverLaunches &driver, CUfunction launched) {
  int threads = 0;
  CUfunction function = nullptr;
  if (driver.attribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, launched) ==
          CUDA_ERROR_INVALID_HANDLE &&
      driver.functionOfKernel &&
      driver.functionOfKernel(&function, reinterpret_cast<CUkernel>(launched)) == CUDA_SUCCESS)
    return function;
  return launched;
}

/// Whether the kernel takes this shape, as far as that is known before the launch. (CUDA C++
/// Programming Guide, "Compute Capabilities": the limits of every architecture.)
bool isLaunchable(const ForeignKernel &kernel, const LaunchShape &shape) {
  if (shape.grid.count() == 0 || shape.grid.x > 0x7fffffff || shape.grid.y > 65535 ||
      shape.grid.z > 65535)
    return false;
  if (shape.block.count() == 0 || shape.block.x > 1024 || shape.block.y > 1024 ||
      shape.block.z > 64 || shape.block.count() > kernel.mostThreads ||
      shape.dynamicSharedBytes > kernel.mostShared)
    return false;
  const Dim3 &cluster = shape.cluster == Dim3{0, 0, 0} ? kernel.requiredCluster : shape.cluster;
  return cluster == Dim3{0, 0, 0} ||
         (cluster.count() != 0 && cluster.count() <= 16 && shape.grid.x % cluster.x == 0 &&
          shape.grid.y % cluster.y == 0 && shape.grid.z % cluster.z == 0);
}

/// Zero where the kernel was compiled for no cluster, and with a driver without clusters.
Dim3 requiredClusterOf(const DriverLaunches &driver, CUfunction function) {
  int width = 0, height = 0, depth = 0;
  bool isKnown =
      driver.attribute(&width, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, function) ==
          CUDA_SUCCESS &&
      driver.attribute(&height, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT, function) ==
          CUDA_SUCCESS &&
      driver.attribute(&depth, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH, function) == CUDA_SUCCESS;
  if (!isKnown || width <= 0 || height <= 0 || depth <= 0)
    return {0, 0, 0};
  return {static_cast<std::uint32_t>(width), static_cast<std::uint32_t>(height),
          static_cast<std::uint32_t>(depth)};
}

std::shared_ptr<const ForeignKernel> ask(const DriverLaunches &driver, CUfunction launched,
                                         CUcontext context) {
  auto made = std::make_shared<ForeignKernel>();
  made->function = functionOf(driver, launched);
  made->context = context;
  const char *name = nullptr;
  if (driver.functionName && driver.functionName(&name, made->function) == CUDA_SUCCESS && name)
    made->name = name;
  int threads = 0, shared = 0;
  if (driver.attribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, made->function) ==
          CUDA_SUCCESS &&
      driver.attribute(&shared, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, made->function) ==
          CUDA_SUCCESS) {
    made->mostThreads = static_cast<std::uint64_t>(threads);
    made->mostShared = static_cast<std::uint64_t>(shared);
    made->requiredCluster = requiredClusterOf(driver, made->function);
  }
  std::size_t offset = 0, size = 0;
  while (made->parameters.size() < maxParameters &&
         driver.parameterInfo(made->function, made->parameters.size(), &offset, &size) ==
             CUDA_SUCCESS)
    made->parameters.push_back(
        {static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(size)});
  return made;
}

/// Whether the handle's kernel still has as many parameters, and the same last one: the hooks may
/// not see how a module is unloaded, and its handles may then name other kernels.
bool isStill(const DriverLaunches &driver, const ForeignKernel &kernel) {
  std::size_t count = kernel.parameters.size(), offset = 0, size = 0;
  if (count == 0 || driver.parameterInfo(kernel.function, count, &offset, &size) == CUDA_SUCCESS)
    return false;
  const bundle::Parameter &last = kernel.parameters.back();
  return driver.parameterInfo(kernel.function, count - 1, &offset, &size) == CUDA_SUCCESS &&
         offset == last.offset && size == last.size;
}

} // namespace

std::optional<runtime::FunctionAttributes> attributesOf(const DriverLaunches &driver,
                                                        CUfunction function) {
  if (!driver.attribute)
    return std::nullopt;
  CUfunction known = functionOf(driver, function);
  constexpr std::array<CUfunction_attribute, 3> wanted = {CU_FUNC_ATTRIBUTE_NUM_REGS,
                                                          CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES,
                                                          CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK};
  std::array<int, wanted.size()> values{};
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (driver.attribute(&values[i], wanted[i], known) != CUDA_SUCCESS)
      return std::nullopt;
  return runtime::FunctionAttributes{static_cast<std::uint32_t>(values[0]),
                                     static_cast<std::uint32_t>(values[1]),
                                     static_cast<std::uint32_t>(values[2])};
}

std::shared_ptr<const ForeignKernel> ForeignKernels::find(const DriverLaunches &driver,
                                                          CUfunction launched, CUcontext context) {
  if (changes.load() == 0) {
    std::shared_lock lock(mutex);
    auto found = known.find(launched);
    if (found != known.end() && found->second->context == context &&
        isStill(driver, *found->second))
      return found->second;
  }
  std::uint64_t before = forgotten.load();
  std::shared_ptr<const ForeignKernel> made = ask(driver, launched, context);
  std::unique_lock lock(mutex);
  if (changes.load() == 0 && forgotten.load() == before)
    known[launched] = made;
  return made;
}

void ForeignKernels::forget() {
  std::unique_lock lock(mutex);
  forgotten.fetch_add(1);
  known.clear();
}

std::string InTurnCounts::statistics() const {
  constexpr std::array names = {"an old driver",  "parameters",      "attributes",  "shape",
                                "another device", "another context", "another call"};
  static_assert(names.size() == std::tuple_size_v<decltype(counts)>);
  CountsInWords words = inWords(counts, 0, [&](std::size_t i) { return names[i]; });
  return words.sum == 0 ? "" : std::to_string(words.sum) + " (" + words.text + ")";
}

/// The driver copies the parameters during the call and does not write to them.
cudaError_t ForeignLaunch::launch(cudaStream_t stream) const {
  CUlaunchConfig on = config;
  on.hStream = stream;
  on.attrs = const_cast<CUlaunchAttribute *>(attributes.data());
  on.numAttrs = static_cast<unsigned>(attributes.size());
  std::size_t size = bytes.size();
  void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, const_cast<std::byte *>(bytes.data()),
                   CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
  CUresult status =
      kernel ? driver.launch(&on, function, pointersTo(kernel->parameters, bytes.data()).data(),
                             nullptr)
             : driver.launch(&on, function, nullptr, extra);
  return static_cast<cudaError_t>(status); // the two number errors alike
}

TakenLaunch takeLaunch(const DriverLaunches &driver, ForeignKernels &kernels,
                       const CUlaunchConfig &config, CUfunction function, void **parameters,
                       void **extra) {
  CUcontext context = nullptr;
  if (!driver.launch || !driver.parameterInfo || !driver.attribute || !driver.currentContext ||
      driver.currentContext(&context) != CUDA_SUCCESS)
    return {nullptr, InTurnReason::NotAsked};
  auto taken = std::make_shared<ForeignLaunch>();
  taken->identity = reinterpret_cast<std::uint64_t>(function);
  taken->context = context;
  std::shared_ptr<const ForeignKernel> kernel = kernels.find(driver, function, context);
  taken->name = kernel->name;
  taken->shape.grid = {config.gridDimX, config.gridDimY, config.gridDimZ};
  taken->shape.block = {config.blockDimX, config.blockDimY, config.blockDimZ};
  taken->shape.dynamicSharedBytes = config.sharedMemBytes;
  std::span<const CUlaunchAttribute> given(config.attrs, config.attrs ? config.numAttrs : 0);
  auto attributes = copyAttributes(given, taken->shape);
  if (!attributes)
    return {nullptr, InTurnReason::Attributes};
  if (!isLaunchable(*kernel, taken->shape))
    return {nullptr, InTurnReason::WouldFail};
  if ((parameters != nullptr) == (extra != nullptr))
    return {nullptr, InTurnReason::Parameters};
  auto copied = extra ? copyBuffer(extra) : copyEach(*kernel, parameters);
  if (!copied)
    return {nullptr, InTurnReason::Parameters};
  taken->driver = driver;
  taken->function = function;
  taken->config = config;
  taken->config.attrs = nullptr; // the caller's memory
  taken->attributes = std::move(*attributes);
  taken->bytes = std::move(*copied);
  taken->kernel = extra ? nullptr : std::move(kernel);
  return {std::move(taken)};
}

} // namespace tally::hooks
