#include "work/kernel_launch.h"

#include "state/in_hook.h"
#include "state/settings.h"

#include <thread>

namespace tally::hooks {

namespace {

dim3 dimOf(const Dim3 &extent) { return dim3(extent.x, extent.y, extent.z); }

/// Runs on a thread of its own: a failing call leaves no error behind that the application would
/// find.
template <class Questions>
void ask(const ApiDevice &device, const CudaApi &api, Questions questions) {
  std::thread([&] {
    InHook inside;
    api.cudaSetDevice(device.number());
    questions();
  }).join();
}

void lookUp(ApiDevice &device, KernelRecord &kernel) {
  kernel.looked = true;
  if (!kernel.facts)
    return;
  auto found = runtime::LoadedKernel::find(device, idOf(kernel), *kernel.facts, kernel.moduleHash);
  if (found)
    kernel.loaded = std::move(*found);
  else
    // The loaded code is not the code that the bundle describes.
    warn(Warning::StaleBundle, found.error().message + "; it runs as it is, without variants");
}

/// Whether the variant may use more shared memory already: its launches may be padded.
bool allowsMore(const CudaApi &api, const void *entry, cudaFuncAttribute attribute, int value) {
  cudaFuncAttributes now{};
  return attribute == cudaFuncAttributeMaxDynamicSharedMemorySize &&
         api.cudaFuncGetAttributes(&now, entry) == cudaSuccess &&
         now.maxDynamicSharedSizeBytes > value;
}

/// Sets the application's attributes of its kernel on the variants too. A variant that cannot take
/// one does not fit then, and is not chosen.
void applyAttributes(KernelRecord &kernel) {
  for (const auto &entries : kernel.variants)
    for (const void *entry : entries)
      for (const auto &[attribute, value] : kernel.set)
        if (entry && !allowsMore(*kernel.api, entry, attribute, value))
          kernel.api->cudaFuncSetAttribute(entry, attribute, value);
}

struct Entry {
  const CudaApi &api;
  const void *address;
  bool sayCluster; ///< the cluster is an attribute of the launch
};

cudaError_t issue(const Entry &entry, const LaunchShape &shape,
                  std::span<const cudaLaunchAttribute> kept, void **arguments,
                  cudaStream_t stream) {
  std::vector<cudaLaunchAttribute> attributes(kept.begin(), kept.end());
  if (shape.cluster.x != 0 && entry.sayCluster) {
    cudaLaunchAttribute &cluster = attributes.emplace_back();
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = shape.cluster.x;
    cluster.val.clusterDim.y = shape.cluster.y;
    cluster.val.clusterDim.z = shape.cluster.z;
  }
  cudaLaunchConfig_t config{};
  config.gridDim = dimOf(shape.grid);
  config.blockDim = dimOf(shape.block);
  config.dynamicSmemBytes = shape.dynamicSharedBytes;
  config.stream = stream;
  config.attrs = attributes.data();
  config.numAttrs = static_cast<unsigned>(attributes.size());
  return entry.api.cudaLaunchKernelExC(&config, entry.address, arguments);
}

} // namespace

LaunchShape shapeOf(dim3 grid, dim3 block, std::size_t sharedBytes) {
  LaunchShape shape;
  shape.grid = {grid.x, grid.y, grid.z};
  shape.block = {block.x, block.y, block.z};
  shape.dynamicSharedBytes = static_cast<std::uint32_t>(sharedBytes);
  return shape;
}

runtime::LoadedKernel *usableVariants(ApiDevice &device, KernelRecord &kernel) {
  if (kernel.hasStaleVariants)
    return nullptr;
  std::unique_lock lock(kernel.mutex);
  std::uint64_t version = kernel.attributeVersion.load();
  if (!kernel.looked)
    ask(device, *kernel.api, [&] { lookUp(device, kernel); });
  if (kernel.loaded && kernel.appliedVersion != version) {
    ask(device, *kernel.api, [&] { applyAttributes(kernel); });
    kernel.appliedVersion = version;
  }
  return kernel.loaded.get();
}

cudaError_t launchUserKernel(const KernelLaunch &launch, cudaStream_t stream) {
  std::vector<void *> pointers = pointersTo(*launch.parameters, launch.arguments.data());
  return issue({*launch.kernel->api, launch.kernel->function, true}, launch.shape,
               launch.attributes, pointers.data(), stream);
}

cudaError_t launchVariant(const FunctionEntry &entry, const LaunchShape &shape,
                          std::span<const std::byte> parameters,
                          std::span<const cudaLaunchAttribute> attributes, cudaStream_t stream) {
  const bundle::Kernel &facts = *entry.record->facts;
  std::vector<void *> pointers = pointersTo(facts.parameters, parameters.data());
  // The user's kernel has one parameter less.
  pointers.push_back(const_cast<std::byte *>(parameters.data()) + facts.tallyParameterOffset());
  return issue({*entry.api, entry.address, facts.requiredCluster == Dim3{0, 0, 0}}, shape,
               attributes, pointers.data(), stream);
}

} // namespace tally::hooks
