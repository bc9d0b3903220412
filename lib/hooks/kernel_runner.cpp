#include "kernel_runner.h"

#include "settings.h"

#include <algorithm>
#include <array>
#include <utility>

namespace tally::hooks {

using runtime::LaunchPlan;
using runtime::LoadedKernel;
using runtime::PhysicalLaunch;
using runtime::VariantLaunch;

namespace {

constexpr std::size_t stateCount = 1024;
constexpr std::size_t firstListBytes = std::size_t{1} << 20;
constexpr std::uint64_t maxListBytes = std::uint64_t{64} << 20;
/// In the order of preference, as RuntimeOptions has it.
constexpr std::array<Kind, 3> kinds = {Kind::Persistent, Kind::Guard, Kind::Slice};

dim3 dimOf(const Dim3 &extent) { return dim3(extent.x, extent.y, extent.z); }

} // namespace

Result<void> KernelRunner::open() {
  void *memory = nullptr;
  cudaError_t status = api.cudaMalloc(&memory, stateCount * sizeof(tally_launch_state));
  states = static_cast<tally_launch_state *>(memory);
  if (status == cudaSuccess)
    status = api.cudaMemset(states, 0, stateCount * sizeof(tally_launch_state));
  if (status == cudaSuccess)
    status = api.cudaHostAlloc(&memory, sizeof(tally_launch_state), cudaHostAllocDefault);
  if (status != cudaSuccess)
    return ApiDevice::failure(api, "memory for best-effort launches", status);
  mirror = static_cast<tally_launch_state *>(memory);
  return {};
}

cudaError_t KernelRunner::run(const KernelLaunch &launch) {
  KernelRecord &kernel = *launch.kernel;
  LoadedKernel *loaded =
      launch.whole || launch.device != device.number() ? nullptr : lookUp(kernel);
  if (!loaded)
    return runWhole(launch);
  applyAttributes(kernel);
  auto plan = loaded->plan(device, runtime::shapeForVariants(*kernel.facts, launch.shape), kinds,
                           maxListBytes);
  if (!plan || !(*plan)->kind)
    return runWhole(launch);
  return runVariant(launch, *loaded, **plan);
}

/// The kernel's variants as the device knows them; nullptr without usable ones.
LoadedKernel *KernelRunner::lookUp(KernelRecord &kernel) {
  if (kernel.looked)
    return kernel.loaded.get();
  kernel.looked = true;
  if (!kernel.facts)
    return nullptr;
  auto found = LoadedKernel::find(device, ApiDevice::idOf(kernel), *kernel.facts);
  if (found)
    kernel.loaded = std::move(*found);
  else
    // The code that was loaded is not what the bundle speaks of.
    warn(Warning::StaleBundle, found.error().message + "; it runs as it is, without variants");
  kernel.api->cudaGetLastError();
  return kernel.loaded.get();
}

/// What the application has set on its kernel holds for the variants. One that cannot have it does
/// not fit then, and is not chosen.
void KernelRunner::applyAttributes(KernelRecord &kernel) {
  std::uint64_t version = kernel.attributeVersion.load();
  if (kernel.appliedVersion == version)
    return;
  std::unique_lock lock(kernel.mutex);
  for (const auto &entries : kernel.variants)
    for (const void *entry : entries)
      for (const auto &[attribute, value] : kernel.set)
        if (entry)
          kernel.api->cudaFuncSetAttribute(entry, attribute, value);
  kernel.api->cudaGetLastError();
  kernel.appliedVersion = version;
}

cudaError_t KernelRunner::runWhole(const KernelLaunch &launch) {
  control.permit();
  counts.whole.fetch_add(1);
  counts.physical.fetch_add(1);
  return issue(launch, *launch.kernel->api, launch.kernel->function, launch.shape, true, nullptr);
}

cudaError_t KernelRunner::runVariant(const KernelLaunch &launch, LoadedKernel &kernel,
                                     LaunchPlan &plan) {
  VariantLaunch progress(*plan.kind, runtime::shapeForVariants(kernel.facts(), launch.shape),
                         plan.sliceBlocks, plan.workers, kernel.facts().guardTakesTickets());
  bool begun = false;
  while (!progress.finished()) {
    bool launched = false;
    cudaError_t status = step(launch, kernel, progress, launched);
    if (status == cudaSuccess) {
      begun = true;
      continue;
    }
    if (begun || launched)
      return status;
    // The device does not take the variant in this shape: the user's kernel from now on.
    launch.api->cudaGetLastError();
    plan.kind.reset();
    return runWhole(launch);
  }
  counts.throughVariants.fetch_add(1);
  return cudaSuccess;
}

cudaError_t KernelRunner::step(const KernelLaunch &launch, LoadedKernel &kernel,
                               VariantLaunch &progress, bool &launched) {
  const LoadedKernel::Variant &variant = kernel.variant(progress.kind());
  PhysicalLaunch next = progress.next();
  tally_launch_params params = next.params;
  if (cudaError_t status = place(launch, next, params); status != cudaSuccess)
    return status;
  params.control = device.controlAddress();
  params.epoch = control.permit();
  const FunctionEntry &entry =
      ApiDevice::entryOf(next.resumeEntry ? variant.resume : variant.entry);
  bool sayCluster = kernel.facts().requiredCluster == Dim3{0, 0, 0};
  cudaError_t status = issue(launch, *entry.api, entry.address, next.shape, sayCluster, &params);
  if (status != cudaSuccess)
    return status;
  launched = true;
  counts.physical.fetch_add(1);
  status = launch.api->cudaStreamSynchronize(launch.stream);
  if (status != cudaSuccess)
    return status;
  if (progress.kind() == Kind::Slice) {
    progress.absorb({});
    return cudaSuccess;
  }
  // Read after the launch has ended: if no request came until then, it cannot have yielded.
  if (control.word.currentEpoch() == params.epoch) {
    tally_launch_state done{};
    done.next_block = next.params.blocks;
    progress.absorb(done);
    return cudaSuccess;
  }
  return takeState(launch, progress, reinterpret_cast<const tally_launch_state *>(params.state));
}

/// Gives the launch a state in device memory, and lists where it needs them.
cudaError_t KernelRunner::place(const KernelLaunch &launch, const PhysicalLaunch &next,
                                tally_launch_params &params) {
  if (nextState == stateCount) {
    // All launches before have ended.
    cudaError_t status = launch.api->cudaMemsetAsync(
        states, 0, stateCount * sizeof(tally_launch_state), launch.stream);
    if (status != cudaSuccess)
      return status;
    nextState = 0;
  }
  tally_launch_state *state = &states[nextState++];
  params.state = reinterpret_cast<std::uint64_t>(state);
  if (next.state.next_block != 0) {
    *mirror = next.state;
    cudaError_t status = launch.api->cudaMemcpyAsync(state, mirror, sizeof *mirror,
                                                     cudaMemcpyHostToDevice, launch.stream);
    if (status != cudaSuccess)
      return status;
  }
  if (next.listCapacity == 0)
    return cudaSuccess;
  std::swap(lists[0], lists[1]); // what the last launch wrote is what this one reads
  std::size_t bytes = std::size_t{next.listCapacity} * sizeof(std::uint32_t);
  if (List &list = lists[1]; list.bytes < bytes) {
    // The old one stays: freeing waits for the whole device. Doubling bounds what that costs.
    bytes = std::max({bytes, 2 * list.bytes, firstListBytes});
    void *memory = nullptr;
    cudaError_t status = api.cudaMalloc(&memory, bytes);
    if (status != cudaSuccess)
      return status;
    list = {memory, bytes};
  }
  params.list_in = next.readsList ? reinterpret_cast<std::uint64_t>(lists[0].memory) : 0;
  params.list_out = reinterpret_cast<std::uint64_t>(lists[1].memory);
  return cudaSuccess;
}

cudaError_t KernelRunner::takeState(const KernelLaunch &launch, VariantLaunch &progress,
                                    const tally_launch_state *state) {
  cudaError_t status = launch.api->cudaMemcpyAsync(mirror, state, sizeof *mirror,
                                                   cudaMemcpyDeviceToHost, launch.stream);
  if (status == cudaSuccess)
    status = launch.api->cudaStreamSynchronize(launch.stream);
  if (status != cudaSuccess)
    return status;
  tally_launch_state left = *mirror;
  if (!progress.plausible(left)) {
    warn(Warning::Fault, launch.kernel->name +
                             ": the launch's state in device memory was overwritten (a store of "
                             "some kernel outside of its buffers?)");
    return cudaErrorUnknown;
  }
  if (progress.absorb(left))
    counts.yields.fetch_add(1);
  return cudaSuccess;
}

cudaError_t KernelRunner::issue(const KernelLaunch &launch, const CudaApi &by, const void *function,
                                const LaunchShape &shape, bool sayCluster,
                                tally_launch_params *params) {
  std::vector<cudaLaunchAttribute> attributes = launch.attributes;
  if (shape.cluster.x != 0 && sayCluster) {
    cudaLaunchAttribute &cluster = attributes.emplace_back();
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = shape.cluster.x;
    cluster.val.clusterDim.y = shape.cluster.y;
    cluster.val.clusterDim.z = shape.cluster.z;
  }
  std::vector<void *> pointers;
  for (const bundle::Parameter &each : launch.parameters)
    // The runtime copies the arguments during the call and does not write to them.
    pointers.push_back(const_cast<std::byte *>(launch.arguments.data()) + each.offset);
  if (params)
    pointers.push_back(params);
  cudaLaunchConfig_t config{};
  config.gridDim = dimOf(shape.grid);
  config.blockDim = dimOf(shape.block);
  config.dynamicSmemBytes = shape.dynamicSharedBytes;
  config.stream = launch.stream;
  config.attrs = attributes.data();
  config.numAttrs = static_cast<unsigned>(attributes.size());
  return by.cudaLaunchKernelExC(&config, function, pointers.data());
}

} // namespace tally::hooks
