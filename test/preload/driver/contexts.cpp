// Contexts: the primary context and further ones of the one device, and each thread's stack of
// current contexts.
#include "driver.h"

#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace tally::preload_driver {

namespace {

std::atomic<bool> isStarted{false};

/// A thread's current contexts. They outlive the thread's end: destructors that run later may make
/// calls.
struct Stack {
  static constexpr int most = 64;
  CUcontext contexts[most] = {};
  int depth = 0;
};
constinit thread_local Stack stack;

struct Contexts {
  static Contexts &get() {
    static auto *only = new Contexts;
    return *only;
  }

  std::mutex mutex; ///< guards what follows
  CUctx_st primary;
  int retained = 0; ///< retain count of the primary context
  std::vector<std::unique_ptr<CUctx_st>> made;
  std::unordered_map<const void *, CUcontext> owners;

  Contexts() { primary.isAlive = false; }

  bool isKnown(CUcontext context) const {
    bool isOurs = context == &primary;
    for (const auto &each : made)
      isOurs |= each.get() == context;
    return isOurs && context->isAlive;
  }
};

bool isKnown(CUcontext context) {
  std::scoped_lock lock(Contexts::get().mutex);
  return context && Contexts::get().isKnown(context);
}

CUresult deviceComplaint(CUdevice device) {
  return device == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

/// Runs `call(contexts)` for the device, locked.
template <class Call> CUresult onDevice(CUdevice device, Call call) {
  return started([&] {
    if (CUresult bad = deviceComplaint(device); bad != CUDA_SUCCESS)
      return bad;
    std::scoped_lock lock(Contexts::get().mutex);
    return call(Contexts::get());
  });
}

CUresult pushed(CUcontext context) {
  if (!isKnown(context) || stack.depth == Stack::most)
    return CUDA_ERROR_INVALID_CONTEXT;
  stack.contexts[stack.depth++] = context;
  return CUDA_SUCCESS;
}

CUresult created(CUcontext *result, unsigned flags, CUdevice device) {
  if (!result || flags & ~unsigned{CU_CTX_FLAGS_MASK})
    return startComplaint() == CUDA_SUCCESS ? CUDA_ERROR_INVALID_VALUE : startComplaint();
  CUresult error = onDevice(device, [&](Contexts &all) {
    all.made.push_back(std::make_unique<CUctx_st>());
    *result = all.made.back().get();
    (*result)->flags = flags;
    return CUDA_SUCCESS;
  });
  return error == CUDA_SUCCESS ? pushed(*result) : error;
}

cudaError_t waitForAll() { return runtime().cudaDeviceSynchronize(); }

} // namespace

CUresult startComplaint() { return isStarted ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED; }

CUcontext currentContext() { return stack.depth ? stack.contexts[stack.depth - 1] : nullptr; }

CUresult contextComplaint() {
  if (CUresult bad = startComplaint(); bad != CUDA_SUCCESS)
    return bad;
  CUcontext current = currentContext();
  if (!current)
    return CUDA_ERROR_INVALID_CONTEXT;
  return current->isAlive ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

void setOwner(const void *object, CUcontext owner) {
  std::scoped_lock lock(Contexts::get().mutex);
  Contexts::get().owners[object] = owner;
}

void forgetOwner(const void *object) {
  std::scoped_lock lock(Contexts::get().mutex);
  Contexts::get().owners.erase(object);
}

CUcontext ownerOf(const void *object) {
  Contexts &all = Contexts::get();
  std::scoped_lock lock(all.mutex);
  if (auto found = all.owners.find(object); found != all.owners.end())
    return found->second;
  return currentContext() ? currentContext() : &all.primary;
}

} // namespace tally::preload_driver

using namespace tally::preload_driver;

extern "C" {

CUresult cuInit(unsigned flags) {
  if (flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (!tally::hooks::emulated::Context::get().device())
    return CUDA_ERROR_NO_DEVICE;
  isStarted = true;
  return CUDA_SUCCESS;
}

// The primary context
// ------------------------------------------------------------------------------

CUresult cuDevicePrimaryCtxRetain(CUcontext *result, CUdevice device) {
  return onDevice(device, [&](Contexts &all) {
    if (!result)
      return CUDA_ERROR_INVALID_VALUE;
    ++all.retained;
    all.primary.isAlive = true;
    *result = &all.primary;
    return CUDA_SUCCESS;
  });
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  CUresult waited = started([] { return waitForAll(); });
  if (waited != CUDA_SUCCESS)
    return waited;
  return onDevice(device, [](Contexts &all) {
    if (all.retained == 0)
      return CUDA_ERROR_INVALID_CONTEXT;
    if (--all.retained == 0)
      all.primary.isAlive = false;
    return CUDA_SUCCESS;
  });
}

/// Memory may be freed only where no other context may own some.
CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
  return onDevice(device, [](Contexts &all) {
    bool isAlone = true;
    for (const auto &each : all.made)
      isAlone &= !each->isAlive;
    if (!isAlone)
      return codeOf(waitForAll());
    all.owners.clear();
    return codeOf(runtime().cudaDeviceReset());
  });
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *isActive) {
  return onDevice(device, [&](Contexts &all) {
    if (!flags || !isActive)
      return CUDA_ERROR_INVALID_VALUE;
    *flags = all.primary.flags;
    *isActive = all.primary.isAlive;
    return CUDA_SUCCESS;
  });
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags) {
  return onDevice(device, [&](Contexts &all) {
    if (flags & ~unsigned{CU_CTX_FLAGS_MASK})
      return CUDA_ERROR_INVALID_VALUE;
    all.primary.flags = flags;
    return CUDA_SUCCESS;
  });
}

// Further ones
// -------------------------------------------------------------------------------------

CUresult cuCtxCreate_v2(CUcontext *result, unsigned flags, CUdevice device) {
  return created(result, flags, device);
}
CUresult cuCtxCreate_v3(CUcontext *result, CUexecAffinityParam *, int, unsigned flags,
                        CUdevice device) {
  return created(result, flags, device);
}
CUresult cuCtxCreate_v4(CUcontext *result, CUctxCreateParams *, unsigned flags, CUdevice device) {
  return created(result, flags, device);
}

CUresult cuCtxDestroy_v2(CUcontext context) {
  CUresult waited = started([] { return waitForAll(); });
  if (waited != CUDA_SUCCESS)
    return waited;
  Contexts &all = Contexts::get();
  std::scoped_lock lock(all.mutex);
  if (!context || context == &all.primary || !all.isKnown(context))
    return CUDA_ERROR_INVALID_CONTEXT;
  context->isAlive = false;
  if (currentContext() == context)
    --stack.depth;
  return CUDA_SUCCESS;
}

// The thread's current context
// ---------------------------------------------------------------------

CUresult cuCtxGetCurrent(CUcontext *result) {
  return started([&] {
    if (!result)
      return CUDA_ERROR_INVALID_VALUE;
    *result = currentContext();
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxSetCurrent(CUcontext context) {
  return started([&] {
    if (context && !isKnown(context))
      return CUDA_ERROR_INVALID_CONTEXT;
    if (stack.depth)
      --stack.depth;
    return context ? pushed(context) : CUDA_SUCCESS;
  });
}

CUresult cuCtxPushCurrent_v2(CUcontext context) {
  return started([&] { return pushed(context); });
}

CUresult cuCtxPopCurrent_v2(CUcontext *result) {
  return started([&] {
    if (stack.depth == 0)
      return CUDA_ERROR_INVALID_CONTEXT;
    CUcontext popped = stack.contexts[--stack.depth];
    if (result)
      *result = popped;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetDevice(CUdevice *device) {
  return inContext([&] {
    *device = 0;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext context) {
  if (!context)
    return cuCtxGetDevice(device);
  return started([&] {
    if (!isKnown(context))
      return CUDA_ERROR_INVALID_CONTEXT;
    *device = 0;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetApiVersion(CUcontext context, unsigned *version) {
  return started([&] {
    if (context ? !isKnown(context) : contextComplaint() != CUDA_SUCCESS)
      return CUDA_ERROR_INVALID_CONTEXT;
    *version = 3020; // the version of cuCtxCreate_v2
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetFlags(unsigned *flags) {
  return inContext([&] {
    *flags = currentContext()->flags;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxSynchronize() {
  return inContext([] { return waitForAll(); });
}

CUresult cuCtxSynchronize_v2(CUcontext context) {
  if (!context)
    return cuCtxSynchronize();
  return started(
      [&] { return isKnown(context) ? codeOf(waitForAll()) : CUDA_ERROR_INVALID_CONTEXT; });
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  return inContext([&] { return runtime().cudaDeviceGetStreamPriorityRange(least, greatest); });
}

CUresult cuCtxGetLimit(size_t *value, CUlimit limit) {
  return inContext(
      [&] { return runtime().cudaDeviceGetLimit(value, static_cast<cudaLimit>(limit)); });
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
  return inContext(
      [&] { return runtime().cudaDeviceSetLimit(static_cast<cudaLimit>(limit), value); });
}

} // extern "C"
