#include "process/launch_calls.h"

#include "state/in_hook.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace tally::hooks {

namespace {

/// Asks the runtime for the parameters of a kernel that is in no bundle. Runs on a thread of its
/// own: asking beyond the last parameter is an error, which the application would find.
std::shared_ptr<const Parameters> askParameters(const KernelRecord &kernel) {
  Parameters found;
  int device = 0;
  if (kernel.api->cudaGetDevice(&device) != cudaSuccess)
    return nullptr;
  cudaError_t last = cudaSuccess;
  std::thread([&] {
    InHook inside;
    kernel.api->cudaSetDevice(device);
    std::size_t offset = 0, size = 0;
    while ((last = kernel.api->cudaFuncGetParamInfo(kernel.function, found.size(), &offset,
                                                    &size)) == cudaSuccess)
      found.push_back({static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(size)});
  }).join();
  if (last != cudaErrorInvalidValue)
    return nullptr;
  return std::make_shared<const Parameters>(std::move(found));
}

/// Asks once for the facts of a kernel that a queued launch needs.
void describe(KernelRecord &kernel) {
  if (kernel.described.load(std::memory_order_acquire))
    return;
  std::unique_lock lock(kernel.mutex);
  if (kernel.described)
    return;
  if (!kernel.unmatchedIn.empty())
    warnOfUnmatched(kernel.unmatchedIn);
  kernel.status = kernel.api->cudaFuncGetAttributes(&kernel.attributes, kernel.function);
  if (kernel.facts)
    kernel.parameters = std::make_shared<const Parameters>(kernel.facts->parameters);
  else if (kernel.status == cudaSuccess)
    kernel.parameters = askParameters(kernel);
  kernel.described = true;
}

/// Takes the attributes that a queued launch can keep. Returns false where the launch has to be
/// made unchanged.
bool takeAttributes(std::span<const cudaLaunchAttribute> attributes, KernelLaunch &launch) {
  for (const cudaLaunchAttribute &each : attributes)
    switch (each.id) {
    case cudaLaunchAttributeIgnore:
    // A kernel that yields "completes" early, so no kernel may start on that signal.
    case cudaLaunchAttributeProgrammaticStreamSerialization:
      break;
    case cudaLaunchAttributeClusterDimension:
      launch.shape.cluster = {each.val.clusterDim.x, each.val.clusterDim.y, each.val.clusterDim.z};
      break;
    case cudaLaunchAttributeCooperative:
      launch.nonPreemptible = launch.nonPreemptible || each.val.cooperative != 0;
      launch.attributes.push_back(each);
      break;
    case cudaLaunchAttributeAccessPolicyWindow:
    case cudaLaunchAttributeSynchronizationPolicy:
    case cudaLaunchAttributeClusterSchedulingPolicyPreference:
    case cudaLaunchAttributePriority:
    case cudaLaunchAttributeMemSyncDomainMap:
    case cudaLaunchAttributeMemSyncDomain:
    case carveoutLaunchAttribute:
      launch.attributes.push_back(each);
      break;
    default:
      return false;
    }
  return true;
}

/// Whether the device takes this shape, as far as that is known before the launch. (CUDA C++
/// Programming Guide, "Compute Capabilities": the limits of every architecture.) A launch of
/// another shape is made at once, and CUDA returns the error.
bool isLaunchable(const KernelRecord &kernel, const LaunchShape &shape) {
  const cudaFuncAttributes &limits = kernel.attributes;
  if (shape.grid.count() == 0 || shape.grid.x > 0x7fffffff || shape.grid.y > 65535 ||
      shape.grid.z > 65535)
    return false;
  if (shape.block.count() == 0 || shape.block.x > 1024 || shape.block.y > 1024 ||
      shape.block.z > 64 ||
      shape.block.count() > static_cast<std::uint64_t>(limits.maxThreadsPerBlock))
    return false;
  if (shape.dynamicSharedBytes > static_cast<std::uint64_t>(limits.maxDynamicSharedSizeBytes))
    return false;
  Dim3 cluster = shape.cluster;
  if (cluster == Dim3{0, 0, 0} && kernel.facts)
    cluster = kernel.facts->requiredCluster;
  if (cluster == Dim3{0, 0, 0})
    return true;
  return cluster.count() != 0 && cluster.count() <= 16 && shape.grid.x % cluster.x == 0 &&
         shape.grid.y % cluster.y == 0 && shape.grid.z % cluster.z == 0;
}

} // namespace

std::shared_ptr<KernelLaunch> makeLaunch(KernelRecord &kernel, int device,
                                         const LaunchRequest &request) {
  describe(kernel);
  std::unique_lock lock(kernel.mutex);
  if (kernel.status != cudaSuccess || !kernel.parameters || request.sharedBytes > UINT32_MAX)
    return nullptr;
  auto launch = std::make_shared<KernelLaunch>();
  launch->kernel = &kernel;
  launch->function = request.function;
  launch->device = device;
  launch->shape = shapeOf(request.grid, request.block, request.sharedBytes);
  if (!takeAttributes(request.attributes, *launch) || !isLaunchable(kernel, launch->shape))
    return nullptr;
  if (request.cooperative) {
    launch->nonPreemptible = true;
    cudaLaunchAttribute &cooperative = launch->attributes.emplace_back();
    cooperative.id = cudaLaunchAttributeCooperative;
    cooperative.val.cooperative = 1;
  }
  launch->parameters = kernel.parameters;
  for (std::size_t i = 0; i < launch->parameters->size(); ++i)
    if (!request.arguments || !request.arguments[i])
      return nullptr;
  launch->arguments = copyArguments(*launch->parameters, request.arguments);
  return launch;
}

void LaunchCalls::knowLast(const StreamState &state) {
  KnownStream &last = threadState.last;
  Activity *shared = served.activity();
  // With best-effort work, work on a stream that is ordered with the legacy one may have to wait.
  bool waits = state.kind != StreamKind::NonBlocking && served.engine();
  if (last.state != &state || !shared || state.kind == StreamKind::PerThread || waits ||
      state.device != shared->onDevice().number())
    return;
  last.high = state.high.load();
  last.footprints = served.footprints();
  last.scopes = last.high ? &shared->scopes() : nullptr;
  last.own =
      last.high && !last.footprints && last.high->isOwnedBy(&threadState) ? last.high : nullptr;
}

/// Asks once for the facts that a launch through the queue needs, and warns at once, though no such
/// launch may ever come.
void LaunchCalls::meetKernel(const CudaApi &api, const void *function) {
  describe(registry.find(api, function));
}

cudaError_t LaunchCalls::launchBestEffort(const CudaApi &api, StreamState &state,
                                          cudaStream_t handle, const LaunchRequest &request,
                                          const Run &call) {
  BestEffortEngine *running = served.start(api);
  InHook inside;
  if (!running || captures.takesPart(api, handle))
    return call();
  KernelRecord &kernel = registry.find(api, request.function);
  if (state.device != running->deviceNumber()) {
    warnOfOtherDevice(state.device, running->deviceNumber());
    return running->inTurn(state, true, nullptr, call);
  }
  std::shared_ptr<KernelLaunch> launch = makeLaunch(kernel, state.device, request);
  if (!launch)
    return running->inTurn(state, true, &kernel, call);
  running->submit(state, std::move(launch));
  return cudaSuccess;
}

/// Programs set the same value before each launch, which changes nothing.
cudaError_t LaunchCalls::setAttribute(const CudaApi &api, const void *function,
                                      cudaFuncAttribute attribute, int value,
                                      const std::function<cudaError_t()> &call) {
  KernelRecord &kernel = registry.find(api, function);
  auto known = [&] {
    return std::find_if(kernel.set.begin(), kernel.set.end(),
                        [&](const auto &each) { return each.first == attribute; });
  };
  bool isSet = [&] {
    std::unique_lock lock(kernel.mutex);
    return known() != kernel.set.end() && known()->second == value;
  }();
  if (!isSet)
    served.drain(); // queued launches were made with the old value
  InHook inside;
  cudaError_t status = call();
  if (isSet || status != cudaSuccess)
    return status;
  std::unique_lock lock(kernel.mutex);
  kernel.described = false; // the kernel's limits have changed
  kernel.taken.reset();
  if (HighFootprints *seen = served.footprints())
    seen->forget();
  if (known() != kernel.set.end())
    known()->second = value;
  else
    kernel.set.emplace_back(attribute, value);
  kernel.attributeVersion.fetch_add(1);
  return status;
}

void LaunchCalls::selfCheck() {
  if (checked.exchange(true) || settings.arePreloaded || registry.kernelsWithVariants() != 0)
    return;
  registry.warnOfNothing();
}

} // namespace tally::hooks
