#include "process/copy_calls.h"

#include "state/in_hook.h"
#include "work/queue_checks.h"

#include <cstring>

namespace tally::hooks {

namespace {

/// Whether the runtime copies from and to this memory during the call, not in the order of the
/// stream.
bool isPageable(const CudaApi &api, const void *pointer) {
  cudaPointerAttributes attributes{};
  return api.cudaPointerGetAttributes(&attributes, pointer) != cudaSuccess ||
         attributes.type == cudaMemoryTypeUnregistered;
}

bool mayQueueCopy(const CudaApi &api, const void *to, const void *from, std::size_t bytes,
                  cudaMemcpyKind kind) {
  return QueueChecks{api}.copy(to, from, bytes, kind) &&
         (kind == cudaMemcpyDeviceToDevice || !(isPageable(api, to) || isPageable(api, from)));
}

/// In an idle queue only what the driver would make with a kernel: copies within the device.
std::optional<OwnLaunch> copyByKernel(OwnKernels &own, bool isIdle, bool mayBeKernel, void *to,
                                      const void *from, std::size_t bytes, cudaMemcpyKind kind) {
  if (!isIdle)
    return own.copy(to, from, bytes, kind);
  return mayBeKernel ? own.copy(to, from, bytes, cudaMemcpyDeviceToDevice) : std::nullopt;
}

} // namespace

cudaError_t CopyCalls::copyAsync(const CudaApi &api, void *to, const void *from, std::size_t bytes,
                                 cudaMemcpyKind kind, cudaStream_t handle) {
  auto copy = [&api, to, from, bytes, kind](cudaStream_t on) {
    return api.cudaMemcpyAsync(to, from, bytes, kind, on);
  };
  if (isOfDriver(kind))
    runsDriverKernel(api, handle);
  if (auto status = tryStaged(api, to, from, bytes, kind, handle))
    return *status;
  auto mayQueue = [&] { return mayQueueCopy(api, to, from, bytes, kind); };
  auto byKernel = [=](OwnKernels &own, bool isIdle) {
    return copyByKernel(own, isIdle, isOfDriver(kind), to, from, bytes, kind);
  };
  return rules.queueCopy(api, handle, mayQueue, copy, RunAhead::copyOf(kind, bytes), byKernel);
}

cudaError_t CopyCalls::fillAsync(const CudaApi &api, void *to, int value, std::size_t bytes,
                                 cudaStream_t handle) {
  auto fill = [&api, to, value, bytes](cudaStream_t on) {
    return api.cudaMemsetAsync(to, value, bytes, on);
  };
  runsDriverKernel(api, handle);
  auto mayQueue = [&] { return QueueChecks{api}.isOnDevice(to, bytes); };
  auto byKernel = [=](OwnKernels &own, bool) { return own.fill(to, value, bytes); };
  return rules.queueCopy(api, handle, mayQueue, fill, RunAhead::fillOf(bytes), byKernel);
}

cudaError_t CopyCalls::foreignCopy(const CudaApi &api, cudaStream_t handle, const ForeignCopy &copy,
                                   const std::function<cudaError_t()> &call) {
  StreamState &state = streams.find(api, handle);
  if (copy.mayBeKernel)
    runsDriverKernel(api, handle);
  BestEffortEngine *now = served.engine();
  if (!now || !state.bestEffort || copy.context != now->context())
    return rules.stream(api, handle, call);
  if (!copy.isFill)
    if (auto status = tryStaged(api, copy.to, copy.from, copy.bytes, cudaMemcpyDefault, handle))
      return *status;
  auto mayQueue = [&] {
    return copy.isFill ? copy.isAligned && QueueChecks{api}.isOnDevice(copy.to, copy.bytes)
                       : mayQueueCopy(api, copy.to, copy.from, copy.bytes, cudaMemcpyDefault);
  };
  auto byKernel = [&](OwnKernels &own, bool isIdle) -> std::optional<OwnLaunch> {
    if (copy.isFill)
      return copy.byte ? own.fill(copy.to, *copy.byte, copy.bytes) : std::nullopt;
    return copyByKernel(own, isIdle, copy.mayBeKernel, copy.to, copy.from, copy.bytes,
                        cudaMemcpyDefault);
  };
  AheadWork work =
      copy.isFill ? RunAhead::fillOf(copy.bytes) : RunAhead::copyOf(cudaMemcpyDefault, copy.bytes);
  return rules.queueBestEffort(api, state, handle, mayQueue, call, {copy.on}, work, {}, byKernel)
      .status;
}

/// Returns the engine where the stream's kernels are queued now; else nullptr.
BestEffortEngine *CopyCalls::queueing(const CudaApi &api, const StreamState &state) {
  BestEffortEngine *now = served.engine();
  bool isQueued = now && state.bestEffort && state.kind != StreamKind::PerThread &&
                  state.device == now->deviceNumber() && !now->isAhead() &&
                  !captures.takesPart(api, state.handle);
  return isQueued ? now : nullptr;
}

std::optional<cudaError_t> CopyCalls::tryStaged(const CudaApi &api, void *to, const void *from,
                                                std::size_t bytes, cudaMemcpyKind kind,
                                                cudaStream_t handle) {
  StreamState &state = streams.find(api, handle);
  BestEffortEngine *now = queueing(api, state);
  Staging *staging = now && !now->queue().isIdle() ? now->stagingMemory() : nullptr;
  if (!staging)
    return std::nullopt;
  InHook inside;
  std::optional<StagedCopy> copy = staging->begin(to, from, bytes, kind);
  if (!copy)
    return std::nullopt;
  std::uint64_t ticket = now->submit(state, std::move(copy->launch), copy->run);
  if (!copy->toHost) {
    staging->keepUntil(*copy, ticket);
    return cudaSuccess;
  }
  now->wait(ticket);
  std::memcpy(to, copy->memory, bytes);
  staging->keepUntil(*copy, 0);
  return served.withDeferred(cudaSuccess);
}

cudaError_t CopyCalls::copy(const CudaApi &api, void *to, const void *from, std::size_t bytes,
                            cudaMemcpyKind kind, cudaStream_t which,
                            const std::function<cudaError_t()> &call) {
  if (isOfDriver(kind)) {
    runsDriverKernel(api, which);
    auto within = [=](OwnKernels &own) {
      return own.copy(to, from, bytes, cudaMemcpyDeviceToDevice);
    };
    auto run = [&api, to, from, bytes, kind](cudaStream_t on) {
      return api.cudaMemcpyAsync(to, from, bytes, kind, on);
    };
    if (trySubmit(api, which, within, run))
      return cudaSuccess;
  }
  if (auto status = tryStaged(api, to, from, bytes, kind, which)) {
    InHook inside;
    served.engine()->wait(streams.find(api, which).lastTicket.load());
    return served.withDeferred(*status);
  }
  return rules.legacy(api, which, call);
}

/// Like CUDA's own, fills of the device's memory, and copies within it, do not wait for the device.
bool CopyCalls::trySubmit(const CudaApi &api, cudaStream_t which,
                          const std::function<std::optional<OwnLaunch>(OwnKernels &)> &make,
                          const RunOn &run) {
  StreamState &state = streams.find(api, which);
  BestEffortEngine *now = queueing(api, state);
  OwnKernels *own = now ? now->ownKernels() : nullptr;
  if (!own)
    return false;
  InHook inside;
  std::optional<OwnLaunch> launch = make(*own);
  if (launch)
    now->submit(state, std::move(*launch), run);
  return launch.has_value();
}

cudaError_t CopyCalls::fill(const CudaApi &api, void *to, int value, std::size_t bytes,
                            cudaStream_t which, const std::function<cudaError_t()> &call) {
  runsDriverKernel(api, which);
  auto make = [=](OwnKernels &own) { return own.fill(to, value, bytes); };
  auto run = [&api, to, value, bytes](cudaStream_t on) {
    return api.cudaMemsetAsync(to, value, bytes, on);
  };
  if (trySubmit(api, which, make, run))
    return cudaSuccess;
  return rules.legacy(api, which, call);
}

} // namespace tally::hooks
