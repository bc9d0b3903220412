// Kernel launches, function attributes and occupancy.
#include "calls.h"
#include "launch.h"
#include "streams.h"

#include <algorithm>
#include <cstring>

namespace tally::hooks::emulated {

namespace {

Dim3 extents(dim3 value) { return {value.x, value.y, value.z}; }

std::size_t largestDynamicShared(const Kernel &kernel) {
  if (kernel.maxDynamicShared >= 0)
    return static_cast<std::size_t>(kernel.maxDynamicShared);
  std::size_t used = kernel.info.staticSharedBytes;
  return used < sharedWithoutOptIn ? sharedWithoutOptIn - used : 0;
}

/// The error that CUDA returns at the call for a shape that cannot run. Except for the limits of
/// extents, the errors were observed on the runtime of CUDA 13.0.
cudaError_t complaint(runtime::EmulatorDevice &device, const Kernel &kernel,
                      const KernelLaunch &launch) {
  const LaunchShape &shape = launch.shape;
  std::uint64_t threads = shape.block.count();
  if (shape.grid.count() == 0 || threads == 0)
    return cudaErrorInvalidConfiguration;
  if (threads > 1024 || shape.block.z > 64 || shape.grid.x > 0x7fffffffu || shape.grid.y > 65535 ||
      shape.grid.z > 65535)
    return cudaErrorInvalidValue;
  if (threads > kernel.info.maxThreadsPerBlock)
    return cudaErrorLaunchOutOfResources;
  if (shape.dynamicSharedBytes > largestDynamicShared(kernel))
    return cudaErrorInvalidValue;
  if (launch.isCooperative && shape.grid.count() > std::uint64_t{residentBlocks(
                                                       kernel, threads, shape.dynamicSharedBytes)} *
                                                       device.info().smCount)
    return cudaErrorCooperativeLaunchTooLarge;
  return cudaSuccess;
}

std::vector<std::byte> packed(const emulator::KernelInfo &info, void **arguments) {
  std::vector<std::byte> bytes(info.parameterBytes);
  for (std::size_t i = 0; i < info.parameters.size(); ++i)
    std::memcpy(bytes.data() + info.parameters[i].offset, arguments[i], info.parameters[i].bytes);
  return bytes;
}

KernelDetails detailsOf(const KernelLaunch &launch, const Kernel &kernel,
                        std::vector<std::byte> arguments) {
  KernelDetails details{
      launch.function, launch.shape, launch.isCooperative, std::move(arguments), {}};
  for (const auto &each : kernel.info.parameters)
    details.pointers.push_back(details.arguments.data() + each.offset);
  return details;
}

cudaError_t launched(const KernelLaunch &launch, cudaStream_t stream) {
  return served([&](runtime::EmulatorDevice &device) {
    GraphWork work;
    cudaError_t error = workOf(device, launch, work);
    return error == cudaSuccess ? submit(device, stream, cudaGraphNodeTypeKernel, std::move(work))
                                : error;
  });
}

} // namespace

std::uint32_t residentBlocks(const Kernel &kernel, std::uint64_t threads, std::size_t shared) {
  if (threads == 0 || threads > kernel.info.maxThreadsPerBlock ||
      kernel.info.staticSharedBytes + shared > sharedPerBlock)
    return 0;
  std::uint64_t byThreads = threadsPerSm / ((threads + 31) / 32 * 32);
  std::uint64_t byShared = sharedPerSm / (kernel.info.staticSharedBytes + shared + sharedReserved);
  return static_cast<std::uint32_t>(std::min({std::uint64_t{blocksPerSm}, byThreads, byShared}));
}

cudaError_t workOf(runtime::EmulatorDevice &device, const KernelLaunch &launch, GraphWork &work) {
  Kernel *kernel = nullptr;
  if (cudaError_t bad = Modules::get().kernel(launch.function, kernel); bad != cudaSuccess)
    return bad;
  KernelLaunch wanted = launch;
  if (wanted.shape.cluster.x == 0)
    wanted.shape.cluster = kernel->cluster;
  if (cudaError_t bad = complaint(device, *kernel, wanted); bad != cudaSuccess)
    return bad;
  if (!launch.arguments && !kernel->info.parameters.empty())
    return cudaErrorInvalidValue;
  auto residency =
      launch.isCooperative ? emulator::Residency::Cooperative : emulator::Residency::AsTheyCome;
  std::vector<std::byte> parameters = packed(kernel->info, launch.arguments);
  auto issue = [function = kernel->function, shape = wanted.shape, residency,
                parameters](runtime::EmulatorDevice &to, runtime::StreamId stream) {
    return to.launch(stream, function, shape, parameters, residency);
  };
  work = GraphWork(issue, detailsOf(launch, *kernel, std::move(parameters)));
  return cudaSuccess;
}

cudaError_t Calls::cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments,
                                    size_t shared, cudaStream_t stream) {
  LaunchShape shape{extents(grid), extents(block), static_cast<std::uint32_t>(shared), {0, 0, 0}};
  return launched({function, shape, false, arguments}, stream);
}

cudaError_t Calls::__cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments,
                                      size_t shared, cudaStream_t stream) {
  return cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
}

cudaError_t Calls::cudaLaunchCooperativeKernel(const void *function, dim3 grid, dim3 block,
                                               void **arguments, size_t shared,
                                               cudaStream_t stream) {
  LaunchShape shape{extents(grid), extents(block), static_cast<std::uint32_t>(shared), {0, 0, 0}};
  return launched({function, shape, true, arguments}, stream);
}

cudaError_t Calls::cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *function,
                                       void **arguments) {
  if (!config)
    return remember(cudaErrorInvalidValue);
  LaunchShape shape{extents(config->gridDim),
                    extents(config->blockDim),
                    static_cast<std::uint32_t>(config->dynamicSmemBytes),
                    {0, 0, 0}};
  KernelLaunch launch{function, shape, false, arguments};
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const cudaLaunchAttribute &each = config->attrs[i];
    if (each.id == cudaLaunchAttributeClusterDimension)
      launch.shape.cluster = {each.val.clusterDim.x, each.val.clusterDim.y, each.val.clusterDim.z};
    else if (each.id == cudaLaunchAttributeCooperative)
      launch.isCooperative = each.val.cooperative != 0;
  }
  return launched(launch, config->stream);
}

// Functions ---------------------------------------------------------------------------------------

namespace {
template <class Call> cudaError_t withKernel(const void *function, Call call) {
  return served([&](runtime::EmulatorDevice &device) {
    Kernel *kernel = nullptr;
    cudaError_t error = Modules::get().kernel(function, kernel);
    return error == cudaSuccess ? call(*kernel, device) : error;
  });
}
} // namespace

cudaError_t Calls::cudaFuncGetAttributes(cudaFuncAttributes *attributes, const void *function) {
  return withKernel(function, [&](Kernel &kernel, runtime::EmulatorDevice &device) {
    *attributes = {};
    attributes->sharedSizeBytes = kernel.info.staticSharedBytes;
    attributes->constSizeBytes = kernel.info.constantBytes;
    attributes->localSizeBytes = kernel.info.localBytes;
    attributes->maxThreadsPerBlock = static_cast<int>(kernel.info.maxThreadsPerBlock);
    attributes->numRegs = 32; // PTX does not tell it; within all limits
    attributes->ptxVersion = attributes->binaryVersion = static_cast<int>(device.info().arch);
    attributes->maxDynamicSharedSizeBytes = static_cast<int>(largestDynamicShared(kernel));
    attributes->preferredShmemCarveout = kernel.carveout;
    attributes->clusterDimMustBeSet = kernel.info.requiredCluster.x != 0;
    attributes->requiredClusterWidth = static_cast<int>(kernel.info.requiredCluster.x);
    attributes->requiredClusterHeight = static_cast<int>(kernel.info.requiredCluster.y);
    attributes->requiredClusterDepth = static_cast<int>(kernel.info.requiredCluster.z);
    return cudaSuccess;
  });
}

cudaError_t Calls::cudaFuncSetAttribute(const void *function, cudaFuncAttribute attribute,
                                        int value) {
  return withKernel(function, [&](Kernel &kernel, runtime::EmulatorDevice &) {
    switch (attribute) {
    case cudaFuncAttributeMaxDynamicSharedMemorySize:
      if (value < 0 ||
          kernel.info.staticSharedBytes + static_cast<std::size_t>(value) > sharedPerBlock)
        return cudaErrorInvalidValue;
      kernel.maxDynamicShared = value;
      return cudaSuccess;
    case cudaFuncAttributePreferredSharedMemoryCarveout:
      if (value < -1 || value > 100)
        return cudaErrorInvalidValue;
      kernel.carveout = value;
      return cudaSuccess;
    case cudaFuncAttributeRequiredClusterWidth:
      kernel.cluster = {static_cast<std::uint32_t>(value), std::max(kernel.cluster.y, 1u),
                        std::max(kernel.cluster.z, 1u)};
      return cudaSuccess;
    case cudaFuncAttributeRequiredClusterHeight:
      kernel.cluster = {std::max(kernel.cluster.x, 1u), static_cast<std::uint32_t>(value),
                        std::max(kernel.cluster.z, 1u)};
      return cudaSuccess;
    case cudaFuncAttributeRequiredClusterDepth:
      kernel.cluster = {std::max(kernel.cluster.x, 1u), std::max(kernel.cluster.y, 1u),
                        static_cast<std::uint32_t>(value)};
      return cudaSuccess;
    case cudaFuncAttributeNonPortableClusterSizeAllowed:
    case cudaFuncAttributeClusterSchedulingPolicyPreference:
      return cudaSuccess;
    default:
      return cudaErrorInvalidValue;
    }
  });
}

cudaError_t Calls::cudaKernelSetAttributeForDevice(cudaKernel_t kernel, cudaFuncAttribute attribute,
                                                   int value, int) {
  return cudaFuncSetAttribute(kernel, attribute, value);
}

cudaError_t Calls::cudaFuncSetCacheConfig(const void *function, cudaFuncCache) {
  return withKernel(function, [](Kernel &, runtime::EmulatorDevice &) { return cudaSuccess; });
}

cudaError_t Calls::cudaFuncSetSharedMemConfig(const void *function, cudaSharedMemConfig) {
  return withKernel(function, [](Kernel &, runtime::EmulatorDevice &) { return cudaSuccess; });
}

cudaError_t Calls::cudaFuncGetName(const char **name, const void *function) {
  return withKernel(function, [&](Kernel &kernel, runtime::EmulatorDevice &) {
    *name = kernel.name.c_str();
    return cudaSuccess;
  });
}

cudaError_t Calls::cudaFuncGetParamInfo(const void *function, size_t index, size_t *offset,
                                        size_t *bytes) {
  return withKernel(function, [&](Kernel &kernel, runtime::EmulatorDevice &) {
    if (index >= kernel.info.parameters.size())
      return cudaErrorInvalidValue;
    *offset = kernel.info.parameters[index].offset;
    if (bytes)
      *bytes = kernel.info.parameters[index].bytes;
    return cudaSuccess;
  });
}

// Occupancy ---------------------------------------------------------------------------------------

cudaError_t Calls::cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks,
                                                                          const void *function,
                                                                          int threads,
                                                                          size_t shared, unsigned) {
  return withKernel(function, [&](Kernel &kernel, runtime::EmulatorDevice &) {
    if (threads <= 0)
      return cudaErrorInvalidValue;
    *blocks = static_cast<int>(residentBlocks(kernel, static_cast<std::uint64_t>(threads), shared));
    return cudaSuccess;
  });
}

cudaError_t Calls::cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *function,
                                                                 int threads, size_t shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, shared,
                                                                0);
}

cudaError_t Calls::cudaOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, const void *function,
                                                             int blocks, int threads) {
  return withKernel(function, [&](Kernel &kernel, runtime::EmulatorDevice &) {
    if (blocks <= 0 || threads <= 0)
      return cudaErrorInvalidValue;
    std::size_t each = sharedPerSm / static_cast<std::size_t>(blocks);
    std::size_t used = kernel.info.staticSharedBytes + sharedReserved;
    *bytes =
        each > used ? std::min(each - used, sharedPerBlock - kernel.info.staticSharedBytes) : 0;
    return cudaSuccess;
  });
}

cudaError_t Calls::cudaOccupancyMaxPotentialClusterSize(int *size, const void *function,
                                                        const cudaLaunchConfig_t *) {
  return withKernel(function, [&](Kernel &, runtime::EmulatorDevice &) {
    *size = 8; // every device with clusters supports this size
    return cudaSuccess;
  });
}

cudaError_t Calls::cudaOccupancyMaxActiveClusters(int *clusters, const void *function,
                                                  const cudaLaunchConfig_t *) {
  return withKernel(function, [&](Kernel &, runtime::EmulatorDevice &device) {
    *clusters = static_cast<int>(device.info().smCount);
    return cudaSuccess;
  });
}

} // namespace tally::hooks::emulated
