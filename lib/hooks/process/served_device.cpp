#include "process/served_device.h"

#include "device/driver_exports.h"
#include "device/redirected_exports.h"
#include "process/process_end.h"
#include "state/in_hook.h"

#include <algorithm>
#include <string>
#include <system_error>
#include <utility>

namespace tally::hooks {

namespace {

void add(Totals &sum, const Totals &more) {
  sum.throughVariants += more.throughVariants;
  for (std::size_t i = 0; i < allKinds.size(); ++i)
    sum.byKind[i] += more.byKind[i];
  sum.nonPreemptible += more.nonPreemptible;
  sum.ahead += more.ahead;
  sum.foreignBestEffort += more.foreignBestEffort;
  sum.physical += more.physical;
  sum.yields += more.yields;
  sum.requests += more.requests;
  sum.savedBlocks += more.savedBlocks;
  sum.saveAreasRefused += more.saveAreasRefused;
  sum.pauses += more.pauses;
  sum.copiesByKernels += more.copiesByKernels;
  sum.waits += more.waits;
  sum.confined += more.confined;
  sum.confinedSms = std::max(sum.confinedSms, more.confinedSms);
}

} // namespace

void ServedDevice::beInForkedChild() {
  mayJoin = false;
  cannotStart = true;
  seen = nullptr;
  running = nullptr;
  shared = nullptr;
}

bool ServedDevice::seesAll() {
  const runtime::DriverExports *driver = runtime::driverExports();
  if (!driver || (process.settings.emulator.isOn && driver->isEmpty()))
    return true;
  if (runtime::objectsNamed("libcuda.so.1") > 1)
    driver->notAll("several CUDA drivers are loaded");
  const char *why = driver->whyNotAll();
  if (why)
    warn(Warning::Unseen, std::string("launches may pass unseen: ") + why +
                              ". Best-effort work of this process runs as it would without tally, "
                              "and no other process makes way for such launches");
  return !why;
}

void ServedDevice::runPlainly() {
  if (isPlain.exchange(true))
    return;
  seesAll();
  drain();
}

BestEffortEngine *ServedDevice::start(const CudaApi &api) {
  if (BestEffortEngine *known = engine()) {
    if (!isPlain.load(std::memory_order_relaxed))
      return known;
    known->drain(); // operations queued before this call
    return nullptr;
  }
  if (cannotStart)
    return nullptr;
  if (!seesAll()) {
    cannotStart = true;
    return nullptr;
  }
  std::unique_lock lock(starting);
  if (BestEffortEngine *known = engine(); known || cannotStart)
    return known;
  InHook inside;
  int device = 0;
  Activity *now = shared.load();
  if (!now && api.cudaGetDevice(&device) == cudaSuccess)
    now = openActivity(api, device, false);
  if (!now) {
    cannotStart = true;
    return nullptr;
  }
  auto made = BestEffortEngine::create(api, *now, process.settings, process.trace);
  if (!made) {
    cannotStart = true;
    warn(Warning::NoDevice, made.error().message + "; best-effort work runs as if it were not");
    return nullptr;
  }
  endWorkAtExit();
  if (contains(process.settings.variants.kinds, Kind::Pause))
    seen.store(new HighFootprints(*now, process.registry, process.captures),
               std::memory_order_release);
  running.store(made->release(), std::memory_order_release);
  process.images.serve(api, now->onDevice().number());
  process.streams.forgetKnown();
  if (process.settings.drainMilliseconds != 0)
    drainOnTermination(*this, process.settings.drainMilliseconds);
  return engine();
}

Activity *ServedDevice::openActivity(const CudaApi &api, int device, bool forOthers) {
  auto made = Activity::create(api, process.captures, process.requests, process.settings, device,
                               process.trace);
  if (!made) {
    warn(Warning::NoDevice, made.error().message + "; best-effort work runs as if it were not");
    return nullptr;
  }
  if (forOthers && !(*made)->isInArena())
    return nullptr;
  mayJoin = false;
  Activity *now = made->release();
  shared.store(now); // before the look for open requests: RequestCalls::begin()
  now->countWhatWasThere(process.streams.all());
  process.requests.forEach(
      [now](Requests::Record &each) { now->countRequest(each, runtime::SteadyClock{}()); });
  if (now->isInArena() && process.memory.isOn())
    process.memory.showTo(device,
                          [now](const runtime::MemoryStatus &used) { now->noteMemory(used); });
  countStreams();
  return now;
}

/// The calling thread may be inside a library's call that holds locks; so it does not wait.
void ServedDevice::joinLater(const CudaApi &api) {
  InHook inside;
  seesAll();
  int device = 0;
  if (!mayJoin.exchange(false) || api.cudaGetDevice(&device) != cudaSuccess)
    return;
  auto join = [this, &api, device, before = resets.load()] {
    std::unique_lock lock(starting);
    // After a reset this call would make the device's context anew.
    if (!shared.load() && resets.load() == before)
      openActivity(api, device, true);
  };
  try {
    std::unique_lock lock(joinerMutex);
    if (joiner.joinable())
      joiner.join(); // a thread from before a reset; it is done, or waits only for its turn
    joiner = std::thread(join);
  } catch (const std::system_error &error) {
    warn(Warning::Arena, std::string(error.what()) + "; this process is not seen by others");
  }
  endJoiningAtExit();
}

void ServedDevice::endJoining() {
  mayJoin = false;
  if (getpid() != joinerProcess)
    return; // a forked child has no such thread
  std::thread last;
  {
    std::unique_lock lock(joinerMutex);
    last = std::move(joiner);
  }
  if (last.joinable())
    last.join();
  std::unique_lock lock(starting);
  if (Activity *now = shared.load()) {
    now->stopMonitor();
    now->onDevice().end();
  }
}

cudaError_t ServedDevice::reset(const std::function<cudaError_t()> &call) {
  std::unique_lock lock(starting);
  if (BestEffortEngine *old = running.exchange(nullptr)) {
    old->retire();
    add(earlier, old->totals());
  }
  seen = nullptr;
  if (Activity *old = shared.exchange(nullptr)) {
    process.memory.showTo(-1, {});
    old->retire();
  }
  mayJoin = process.settings.arena.isJoined;
  resets.fetch_add(1);
  return call();
}

cudaError_t ServedDevice::withDeferred(cudaError_t status, bool clear) {
  BestEffortEngine *now = engine();
  if (status != cudaSuccess || !now)
    return status;
  return now->queue().takeError(clear);
}

void ServedDevice::countStreams() {
  if (Activity *now = shared.load())
    now->onDevice().setStreamCount(process.streams.count());
}

Totals ServedDevice::totals() const {
  Totals sum = earlier;
  if (BestEffortEngine *now = engine())
    add(sum, now->totals());
  return sum;
}

} // namespace tally::hooks
