// The life of the hooks: the one object of the process, its engine, and what is said at the end.
#include "process/hooks.h"

#include "api/termination.h"
#include "device/driver_environment.h"
#include "device/driver_exports.h"
#include "device/redirected_exports.h"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <pthread.h>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace tally::hooks {

namespace {

void add(Totals &sum, const Totals &more) {
  sum.throughVariants += more.throughVariants;
  for (std::size_t i = 0; i < allKinds.size(); ++i)
    sum.byKind[i] += more.byKind[i];
  sum.whole += more.whole;
  sum.ahead += more.ahead;
  sum.physical += more.physical;
  sum.yields += more.yields;
  sum.requests += more.requests;
  sum.savedBlocks += more.savedBlocks;
  sum.saveAreasRefused += more.saveAreasRefused;
  sum.pauses += more.pauses;
  sum.copiesByKernels += more.copiesByKernels;
  sum.waits += more.waits;
}

/// Empty: code that is loaded at run time has no variants.
std::string storeOf(const Settings &settings) {
  if (!settings.arePreloaded || !settings.bestEffort || settings.variants.folder == "off")
    return "";
  return settings.variants.folder.empty() ? bundle::VariantStore::defaultFolder()
                                          : settings.variants.folder;
}

} // namespace

Hooks::Hooks(const Settings &settings)
    : settings(settings), streams(settings.bestEffort, !settings.arePreloaded),
      images(registry, storeOf(settings)),
      // A profiler that is injected is shown the program's own calls.
      directLaunches(settings.launchesByDriver && !std::getenv("CUDA_INJECTION64_PATH"), captures),
      account(settings), mayJoin(settings.arena.isJoined) {
  if (settings.trace.path.empty())
    return;
  auto opened = runtime::Trace::open(settings.trace.path, settings.trace.events);
  if (opened)
    trace = std::move(*opened);
  else
    warn(Warning::Trace, "TALLY_TRACE: " + opened.error().message + "; there is no trace");
}

Hooks &Hooks::makeShared() {
  Hooks *known = nullptr;
  auto made = std::make_unique<Hooks>(Settings::get());
  if (!tallySharedHooks3.compare_exchange_strong(known, made.get()))
    return *known;
  made->prepareDriver();
  pthread_atfork(nullptr, nullptr, [] { tallySharedHooks3.load()->beInForkedChild(); });
  if (made->settings.statistics)
    std::atexit([] { tallySharedHooks3.load()->writeStatistics(); });
  if (made->trace)
    std::atexit([] { tallySharedHooks3.load()->writeTrace(); });
  return *made.release();
}

/// The driver starts later.
void Hooks::prepareDriver() {
  if (!settings.emulator.isOn)
    runtime::prepareDriverEnvironment(settings.bestEffort, !settings.arePreloaded);
}

void Hooks::beInForkedChild() {
  isForkedChild = true;
  mayJoin = false;
  cannotStart = true;
  footprints = nullptr;
  engine = nullptr;
  activity = nullptr;
  streams.forgetKnown();
}

bool Hooks::seesAll() {
  const runtime::DriverExports *driver = runtime::driverExports();
  if (!driver || (settings.emulator.isOn && driver->isEmpty()))
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

void Hooks::runPlainly() {
  if (isPlain.exchange(true))
    return;
  seesAll();
  drain();
}

BestEffortEngine *Hooks::start(const CudaApi &api) {
  if (BestEffortEngine *known = running()) {
    if (!isPlain.load(std::memory_order_relaxed))
      return known;
    known->drain(); // of before
    return nullptr;
  }
  if (cannotStart)
    return nullptr;
  if (!seesAll()) {
    cannotStart = true;
    return nullptr;
  }
  std::unique_lock lock(starting);
  if (BestEffortEngine *known = running(); known || cannotStart)
    return known;
  InHook inside;
  int device = 0;
  Activity *shared = activity.load();
  if (!shared && api.cudaGetDevice(&device) == cudaSuccess)
    shared = openActivity(api, device, false);
  if (!shared) {
    cannotStart = true;
    return nullptr;
  }
  auto made = BestEffortEngine::create(api, *shared, settings, trace.get());
  if (!made) {
    cannotStart = true;
    warn(Warning::NoDevice, made.error().message + "; best-effort work runs as if it were not");
    return nullptr;
  }
  static const int atEnd = std::atexit([] {
    // Before the CUDA runtime's own end, which was registered earlier. A test's hooks are not the
    // process's.
    Hooks *process = tallySharedHooks3.load();
    if (BestEffortEngine *last = process ? process->running() : nullptr) {
      process->images.stop();
      last->queue().drain(true);
      last->end();
    }
  });
  static_cast<void>(atEnd);
  if (contains(settings.variants.kinds, Kind::Pause))
    footprints.store(new HighFootprints(*shared, registry, captures), std::memory_order_release);
  engine.store(made->release(), std::memory_order_release);
  images.serve(api, shared->onDevice().number());
  streams.forgetKnown();
  if (settings.drainMilliseconds != 0 && tallySharedHooks3.load() == this)
    drainOnce();
  return running();
}

/// For as long as the process lives.
void Hooks::drainOnce() {
  auto drain = [] {
    Hooks *process = tallySharedHooks3.load();
    if (BestEffortEngine *last = process->running())
      last->quiesce();
    process->writeTrace();
    process->writeStatistics();
  };
  auto tooLate = [limit = settings.drainMilliseconds] {
    warn(Warning::Termination, "SIGTERM: the device is not done after " + std::to_string(limit) +
                                   " ms; the process ends with work on it");
  };
  static auto *const registered = new std::shared_ptr<void>(runtime::drainOnTermination(
      {drain, std::chrono::milliseconds(settings.drainMilliseconds), tooLate}));
  static_cast<void>(registered);
}

Activity *Hooks::openActivity(const CudaApi &api, int device, bool forOthers) {
  auto made = Activity::create(api, captures, requests, settings, device, trace.get());
  if (!made) {
    warn(Warning::NoDevice, made.error().message + "; best-effort work runs as if it were not");
    return nullptr;
  }
  if (forOthers && !(*made)->isInArena())
    return nullptr;
  mayJoin = false;
  Activity *shared = made->release();
  activity.store(shared, std::memory_order_release);
  shared->countWhatWasThere(streams.all());
  requests.forEach(
      [shared](Requests::Record &each) { shared->countRequest(each, runtime::SteadyClock{}()); });
  if (shared->isInArena() && account.isOn())
    account.showTo(device, [shared](const runtime::MemoryStatus &now) { shared->noteMemory(now); });
  countStreams();
  return shared;
}

/// The calling thread may be inside of a library's call that holds locks; so it does not wait.
void Hooks::joinLater(const CudaApi &api) {
  InHook inside;
  seesAll();
  int device = 0;
  if (!mayJoin.exchange(false) || api.cudaGetDevice(&device) != cudaSuccess)
    return;
  auto join = [this, &api, device, before = resets.load()] {
    std::unique_lock lock(starting);
    // After a reset it would be this that makes the device's context anew.
    if (!activity.load() && resets.load() == before)
      openActivity(api, device, true);
  };
  try {
    std::unique_lock lock(joinerMutex);
    if (joiner.joinable())
      joiner.join(); // of before a reset; it is done, or waits for nothing but its turn
    joiner = std::thread(join);
  } catch (const std::system_error &error) {
    warn(Warning::Arena, std::string(error.what()) + "; this process is not seen by others");
  }
  // Before the CUDA runtime's own end, which was registered earlier: a thread that calls it then
  // would crash.
  static const int atEnd = std::atexit([] {
    if (Hooks *process = tallySharedHooks3.load())
      process->endJoining();
  });
  static_cast<void>(atEnd);
}

void Hooks::endJoining() {
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
  if (Activity *shared = activity.load()) {
    shared->stopMonitor();
    shared->onDevice().end();
  }
}

cudaError_t Hooks::resetDevice(const CudaApi &api) {
  drain();
  int device = 0;
  bool isKnown = [&] {
    InHook inside;
    return api.cudaGetDevice(&device) == cudaSuccess;
  }();
  auto reset = [&] {
    directLaunches.forget();
    ofLibraries.forget();
    InHook inside;
    return api.cudaDeviceReset();
  };
  if (Activity *served = activity.load();
      isKnown && served && served->onDevice().number() != device) {
    streams.clear(device);
    account.clear(device);
    return reset();
  }
  events.sweep([](std::uint64_t) { return true; });
  std::unique_lock lock(starting);
  if (BestEffortEngine *old = engine.exchange(nullptr)) {
    old->retire();
    add(earlier, old->totals());
  }
  footprints = nullptr;
  if (Activity *old = activity.exchange(nullptr)) {
    account.showTo(-1, {});
    old->retire();
  }
  mayJoin = settings.arena.isJoined;
  resets.fetch_add(1);
  streams.clear(device);
  graphs.clear();
  registry.forgetDevice();
  if (isKnown)
    account.clear(device);
  return reset();
}

cudaError_t Hooks::withDeferred(cudaError_t status, bool clear) {
  BestEffortEngine *now = running();
  if (status != cudaSuccess || !now)
    return status;
  return now->queue().takeError(clear);
}

void Hooks::selfCheck() {
  if (checked.exchange(true) || settings.arePreloaded || registry.kernelsWithVariants() != 0)
    return;
  registry.warnOfNothing();
}

Totals Hooks::totals() {
  Totals sum = earlier;
  sum.highLaunches = streams.launches();
  sum.foreignHigh = foreignHigh.load();
  sum.foreignBestEffort = foreignBestEffort.load();
  if (BestEffortEngine *now = running())
    add(sum, now->totals());
  return sum;
}

void Hooks::writeTrace() {
  if (!trace)
    return;
  if (Result<void> written = trace->write(); !written)
    warn(Warning::Trace, "TALLY_TRACE: " + written.error().message);
  else if (std::uint64_t lost = trace->lost(); lost != 0)
    warn(Warning::Trace, trace->path() + " holds the newest events; " + std::to_string(lost) +
                             " older ones are lost");
}

void Hooks::writeStatistics() {
  // exit() may come while SIGTERM's drain is under way.
  if (!settings.statistics || wroteStatistics.exchange(true))
    return;
  Totals sum = totals();
  auto text = [](std::uint64_t number) { return std::to_string(number); };
  std::string line = "tally: launches: " + text(sum.highLaunches) + " high priority, " +
                     text(sum.throughVariants + sum.whole + sum.ahead) + " best effort (" +
                     text(sum.throughVariants) + " through variants, " + text(sum.whole) +
                     " whole" + (sum.ahead != 0 ? ", " + text(sum.ahead) + " at once" : "") +
                     "), " + text(sum.foreignHigh) + " high and " + text(sum.foreignBestEffort) +
                     " best effort by libraries; " + text(sum.physical) + " physical launches, " +
                     text(sum.yields) + " yields, " + text(sum.requests) + " requests";
  const char *between = "; variants: ";
  for (std::size_t i = 0; i < allKinds.size(); ++i)
    if (sum.byKind[i] != 0)
      line +=
          std::exchange(between, ", ") + text(sum.byKind[i]) + " " + std::string(name(allKinds[i]));
  if (sum.copiesByKernels != 0)
    line += "; " + text(sum.copiesByKernels) + " copies and fills by kernels";
  if (sum.waits != 0)
    line += "; " + text(sum.waits) + " waits on the device";
  if (sum.savedBlocks != 0)
    line += "; " + text(sum.savedBlocks) + " blocks saved";
  if (sum.saveAreasRefused != 0)
    line += "; no memory to save blocks of " + text(sum.saveAreasRefused) + " launches in";
  if (sum.pauses != 0)
    line += "; " + text(sum.pauses) + " pauses";
  if (const runtime::Headroom *known = sum.pauses != 0 ? headroom() : nullptr) {
    runtime::Footprint left = known->now();
    line += "; room for requests on an SM: " + text(left.threads) + " threads, " +
            text(left.registers) + " registers, " + text(left.sharedBytes) + " bytes shared";
  }
  if (std::string inTurn = foreignInTurn.statistics(); !inTurn.empty())
    line += "; launches by libraries in turn: " + inTurn;
  if (std::string launched = graphs.statistics(); !launched.empty())
    line += "; best-effort graphs: " + launched;
  if (std::string loaded = images.statistics(); !loaded.empty())
    line += "; " + loaded;
  if (std::string used = account.statistics(); !used.empty())
    line += "; " + used;
  line += "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

} // namespace tally::hooks
