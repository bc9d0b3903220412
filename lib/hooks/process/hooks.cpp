// The life of the hooks: the one object of the process, and its output at the end.
#include "process/hooks.h"

#include "device/driver_environment.h"

#include <cstdio>
#include <cstdlib>
#include <pthread.h>
#include <string>
#include <utility>

namespace tally::hooks {

namespace {

/// The store's folder. Empty: code that is loaded at run time has no variants.
std::string storeOf(const Settings &settings) {
  const std::string &folder = settings.variants.folder;
  if (!settings.arePreloaded || !settings.bestEffort || folder == "off")
    return "";
  return folder.empty() ? bundle::VariantStore::defaultFolder() : folder;
}

/// Returns nullptr where no trace is wanted or the file cannot be opened.
std::unique_ptr<runtime::Trace> openTrace(const runtime::TraceSettings &wanted) {
  if (wanted.path.empty())
    return nullptr;
  auto opened = runtime::Trace::open(wanted.path, wanted.events);
  if (opened)
    return std::move(*opened);
  warn(Warning::Trace, "TALLY_TRACE: " + opened.error().message + "; there is no trace");
  return nullptr;
}

} // namespace

Hooks::Hooks(const Settings &settings)
    : settings(settings), trace(openTrace(settings.trace)),
      streamTable(settings.bestEffort, !settings.arePreloaded), images(registry, storeOf(settings)),
      // An injected profiler is shown the program's own calls.
      directLaunches(settings.launchesByDriver && !std::getenv("CUDA_INJECTION64_PATH"), captures),
      account(settings), servedDevice({this->settings, trace.get(), streamTable, registry, images,
                                       captures, openRequests, account}),
      callRules(streamTable, captures, servedDevice),
      streamCalls(this->settings, streamTable, captures, servedDevice),
      eventCalls(streamTable, captures, servedDevice, callRules),
      launchCalls(this->settings, streamTable, registry, captures, servedDevice, callRules),
      graphCalls(this->settings, streamTable, registry, captures, servedDevice, callRules,
                 launchCalls),
      copyCalls(streamTable, captures, servedDevice, callRules),
      memoryCalls(this->settings, captures, account, servedDevice, callRules),
      requestCalls(streamTable, openRequests, servedDevice, trace.get()),
      libraryCalls(this->settings, streamTable, captures, servedDevice, callRules) {}

Hooks &Hooks::makeShared() {
  Hooks *known = nullptr;
  auto made = std::make_unique<Hooks>(Settings::get());
  if (!tallySharedHooks4.compare_exchange_strong(known, made.get()))
    return *known;
  made->prepareDriver();
  pthread_atfork(nullptr, nullptr, [] { tallySharedHooks4.load()->beInForkedChild(); });
  if (made->settings.statistics)
    std::atexit([] { tallySharedHooks4.load()->writeStatistics(); });
  if (made->trace)
    std::atexit([] { tallySharedHooks4.load()->writeTrace(); });
  return *made.release();
}

/// The driver starts later.
void Hooks::prepareDriver() {
  if (!settings.emulator.isOn)
    runtime::prepareDriverEnvironment(settings.bestEffort, !settings.arePreloaded);
}

void Hooks::beInForkedChild() {
  requestCalls.beInForkedChild();
  servedDevice.beInForkedChild();
  streamTable.forgetKnown();
}

cudaError_t Hooks::launchGraph(const CudaApi &api, cudaGraphExec_t graph, cudaStream_t handle) {
  // If no graph is kept, the launch needs no look-up.
  if (streamTable.isLast(handle) && threadState.last.scopes && !threadState.last.footprints &&
      !graphCalls.any())
    return passKnown(threadState.last, [&] { return api.cudaGraphLaunch(graph, handle); });
  return graphCalls.launch(api, graph, handle);
}

void Hooks::kernelsUnloaded() {
  directLaunches.forget();
  registry.forgetHandles();
  libraryCalls.kernels().forget();
  if (HighFootprints *seen = servedDevice.footprints())
    seen->forget();
}

cudaError_t Hooks::resetDevice(const CudaApi &api) {
  servedDevice.drain();
  int device = 0;
  bool isKnown = [&] {
    InHook inside;
    return api.cudaGetDevice(&device) == cudaSuccess;
  }();
  auto reset = [&] {
    directLaunches.forget();
    libraryCalls.kernels().forget();
    InHook inside;
    return api.cudaDeviceReset();
  };
  if (Activity *other = servedDevice.activity();
      isKnown && other && other->onDevice().number() != device) {
    streamTable.clear(device);
    account.clear(device);
    return reset();
  }
  eventCalls.destroyKept();
  return servedDevice.reset([&] {
    streamTable.clear(device);
    graphCalls.clear();
    registry.forgetDevice();
    if (isKnown)
      account.clear(device);
    return reset();
  });
}

cudaError_t Hooks::lastError(const CudaApi &api, bool clear) {
  InHook inside;
  return servedDevice.withDeferred(clear ? api.cudaGetLastError() : api.cudaPeekAtLastError(),
                                   clear);
}

Totals Hooks::totals() {
  Totals sum = servedDevice.totals();
  sum.highLaunches = streamTable.launches();
  sum.foreignHigh = libraryCalls.highLaunches();
  sum.foreignBestEffort += libraryCalls.bestEffortLaunches();
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
  // exit() may come while SIGTERM's drain is in progress.
  if (!settings.statistics || wroteStatistics.exchange(true))
    return;
  Totals sum = totals();
  auto text = [](std::uint64_t number) { return std::to_string(number); };
  std::string line = "tally: launches: " + text(sum.highLaunches) + " high priority, " +
                     text(sum.throughVariants + sum.nonPreemptible + sum.ahead) + " best effort (" +
                     text(sum.throughVariants) + " through variants, " + text(sum.nonPreemptible) +
                     " non-preemptible" +
                     (sum.ahead != 0 ? ", " + text(sum.ahead) + " at once" : "") + "), " +
                     text(sum.foreignHigh) + " high and " + text(sum.foreignBestEffort) +
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
  if (sum.confined != 0)
    line += "; " + text(sum.confined) + " launches on a part of the SMs, the last on " +
            text(sum.confinedSms);
  if (const runtime::Headroom *known = sum.pauses != 0 ? servedDevice.headroom() : nullptr) {
    runtime::Footprint left = known->now();
    line += "; room for requests on an SM: " + text(left.threads) + " threads, " +
            text(left.registers) + " registers, " + text(left.sharedBytes) + " bytes shared";
  }
  if (std::string inTurn = libraryCalls.inTurnCounts().statistics(); !inTurn.empty())
    line += "; launches by libraries in turn: " + inTurn;
  if (std::string launched = graphCalls.statistics(); !launched.empty())
    line += "; best-effort graphs: " + launched;
  if (std::string loaded = images.statistics(); !loaded.empty())
    line += "; " + loaded;
  if (std::string used = account.statistics(); !used.empty())
    line += "; " + used;
  line += "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

} // namespace tally::hooks
