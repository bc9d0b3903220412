#include "engine/best_effort_engine.h"

#include "engine/confinement.h"
#include "state/own_thread.h"

#include <chrono>
#include <thread>

namespace tally::hooks {

Result<std::unique_ptr<BestEffortEngine>> BestEffortEngine::create(const CudaApi &api,
                                                                   Activity &activity,
                                                                   const Settings &settings,
                                                                   runtime::Trace *trace) {
  std::unique_ptr<BestEffortEngine> engine(new BestEffortEngine(api, activity, settings, trace));
  if (Result<void> opened = engine->open(); !opened)
    return opened.error();
  if (settings.yieldEveryMicroseconds != 0)
    engine->storm.emplace(api, activity, engine->ahead ? &*engine->ahead : nullptr,
                          settings.yieldEveryMicroseconds);
  return engine;
}

/// Runs on a thread of its own: a failing call leaves no error behind that the application's
/// threads would find.
Result<void> BestEffortEngine::open() {
  Result<void> opened;
  std::thread([&] { opened = openOnOwnThread(); }).join();
  if (!opened)
    return opened;
  dispatcher->start();
  return {};
}

Result<void> BestEffortEngine::openOnOwnThread() {
  int number = device.number();
  beOnOwnThread(api, number);
  if (Result<void> done =
          device.openControl(runtime::DeviceControl::initialWord(), settings.bestEffort);
      !done)
    return done;
  activity.controlWord().setTrigger(device.trigger());
  runtime::DispatcherOptions options;
  options.lane.kinds = settings.variants.kinds;
  options.lane.reserve = settings.pause.reserve;
  options.pauseDeadline = std::chrono::microseconds(settings.pause.deadlineMicroseconds);
  options.lane.waits = settings.streamWaits;
  options.lane.triesWaits = true;
  options.lane.warn = [](const std::string &text) { warn(Warning::Waits, text); };
  options.lane.control = device.controlAddress();
  options.lane.clock = runtime::SteadyClock();
  options.lane.trace = trace;
  options.lanes = settings.bestEffortStreams;
  options.policy = settings.policy;
  options.lane.bound = std::chrono::microseconds(settings.boundMicroseconds);
  options.lane.smsOfNonPreemptible = smsOfNonPreemptible(device, settings);
  options.lane.confinedSizes = sizesBesideRequests(device, settings);
  openProfiles(options.lane);
  options.prepare = [this, number] { beOnOwnThread(api, number); };
  auto made = runtime::Dispatcher::create(device, activity.controlWord(), activity.scopes(),
                                          std::move(options));
  if (!made)
    return made.error();
  dispatcher = std::move(*made);
  work.emplace(*dispatcher, [this](std::uint32_t of) { return openLanes(of); });
  operations.emplace(device, *work);
  activity.serve(*dispatcher);
  if (settings.copyKernels) {
    own.emplace(api, device, activity.openCaptures(), settings.variants.kinds);
    staging.emplace(api, activity.openCaptures(), *own, *work);
    if (settings.streamWaits)
      staging->prepare();
  }
  if (mayRunAhead())
    ahead.emplace(api, activity.openCaptures(), activity, *work,
                  std::chrono::microseconds(settings.runAheadMicroseconds), trace);
  return {};
}

/// Whether best-effort work has nothing to yield to while no other process is there: the process
/// has no high-priority work, no policy holds best-effort work back even then, and no setting asks
/// for measurements of variants.
bool BestEffortEngine::mayRunAhead() const {
  if (!settings.bestEffort || settings.runAheadMicroseconds == 0 || settings.variants.areProfiled)
    return false;
  runtime::Snapshot idle;
  idle.sinceHighPriorityEnded = std::chrono::nanoseconds::max();
  idle.now = runtime::SteadyClock{}();
  idle.smCount = device.info().smCount;
  runtime::Decision decision = runtime::AnyPolicy(settings.policy).decide(idle);
  return decision.runBestEffort && decision.longest == runtime::anyDuration &&
         decision.longestNonPreemptible == runtime::anyDuration && decision.sms == runtime::allSms;
}

BestEffortQueue::Lanes BestEffortEngine::openLanes(std::uint32_t bestEffortClass) {
  BestEffortQueue::Lanes lanes;
  std::thread([&] {
    beOnOwnThread(api, device.number());
    if (auto made = dispatcher->lanesOf(bestEffortClass))
      lanes = *made;
    else
      warn(Warning::NoDevice, made.error().message + "; best-effort work of class " +
                                  std::to_string(bestEffortClass) + " goes with that of another");
  }).join();
  return lanes;
}

void BestEffortEngine::openProfiles(runtime::LaneOptions &lane) {
  lane.measures = settings.variants.areProfiled;
  std::string path = runtime::ProfileStore::defaultPath(device.info());
  if (!lane.measures || path.empty())
    return;
  lane.profiles = &profiles.emplace(path, device.info());
  if (!profiles->warning().empty())
    warn(Warning::Profile, profiles->warning());
}

void BestEffortEngine::saveProfiles() {
  if (!profiles)
    return;
  if (Result<void> saved = profiles->save(); !saved)
    warn(Warning::Profile, saved.error().message + "; it will be measured again");
}

std::uint64_t BestEffortEngine::submit(StreamState &stream, Run run, Behind behind) {
  int target = stream.device;
  auto call = [this, target, &stream, run = std::move(run)] {
    bool elsewhere = target != device.number() && api.cudaSetDevice(target) == cudaSuccess;
    cudaError_t status = run();
    if (elsewhere)
      api.cudaSetDevice(device.number());
    device.noteCall(stream);
    return status;
  };
  beginQueued(stream);
  return work->submit(stream, std::move(call), behind);
}

std::uint64_t BestEffortEngine::submitOnLane(StreamState &stream, OnAnyStream call, Behind behind) {
  beginQueued(stream);
  runtime::Operation operation = operations->of(std::move(call.run));
  operation.mayBeLate = call.mayBeLate;
  return work->submit(stream, std::move(operation), behind);
}

std::uint64_t BestEffortEngine::submitOrder(StreamState &stream, Behind behind) {
  beginQueued(stream);
  runtime::Operation operation;
  operation.type = runtime::Operation::Type::Put;
  operation.mayBeLate = true;
  return work->submit(stream, std::move(operation), behind);
}

void BestEffortEngine::submit(StreamState &stream,
                              const std::shared_ptr<const KernelLaunch> &launch) {
  beginQueued(stream);
  runtime::Operation operation = operations->of(launch);
  if (ahead)
    operation.took = ahead->takeNews(stream, {launch->function, operation.shape.grid.count()});
  work->submit(stream, std::move(operation));
}

std::uint64_t BestEffortEngine::submit(StreamState &stream, OwnLaunch launch, RunOn run) {
  beginQueued(stream);
  copiesByKernels.fetch_add(1);
  return work->submit(stream, operations->of(std::move(launch), std::move(run)));
}

std::uint64_t BestEffortEngine::submit(StreamState &stream, const std::vector<GraphPart> &parts,
                                       const OrderingEvent &event, Behind behind) {
  beginQueued(stream);
  auto wait = [this, event](cudaStream_t on) {
    return api.cudaStreamWaitEvent(on, event.get(), 0);
  };
  // The first batch already runs while later batches are made.
  std::size_t waits = event ? 1 : 0;
  auto make = [&](std::size_t i) {
    return i < waits ? operations->of(RunOn(wait)) : operations->of(parts[i - waits]);
  };
  return work->submit(stream, parts.size() + waits, make, behind);
}

void BestEffortEngine::submit(StreamState &stream,
                              const std::shared_ptr<const ForeignLaunch> &launch) {
  beginQueued(stream);
  runtime::Operation operation = operations->of(launch);
  if (ahead)
    operation.took = ahead->takeNews(
        stream, {reinterpret_cast<const void *>(launch->identity), operation.shape.grid.count()});
  work->submit(stream, std::move(operation));
}

cudaError_t BestEffortEngine::inTurn(StreamState &stream, bool launches, const void *identity,
                                     const Run &run, Behind behind) {
  InHook inside;
  beginQueued(stream);
  // The lane waits for a kernel by an event of its own device, which a stream of another device
  // does not take. Work on another device is ordered by the program's own events.
  bool waits = launches && stream.device == device.number();
  auto call = [&] {
    cudaError_t status = run();
    noteCall(stream);
    if (waits)
      markCalls(stream);
    return status;
  };
  return work->inTurn(stream, waits, reinterpret_cast<std::uint64_t>(identity), call, behind);
}

Totals BestEffortEngine::totals() const {
  runtime::Statistics statistics;
  dispatcher->addTo(statistics);
  Totals sum;
  sum.throughVariants = statistics.bestEffortLaunches;
  sum.nonPreemptible = operations->nonPreemptible();
  sum.ahead = ahead ? ahead->launches(true) : 0;
  sum.foreignBestEffort = ahead ? ahead->launches(false) : 0;
  sum.byKind = statistics.launchesByKind;
  sum.physical = statistics.physicalLaunches;
  sum.yields = statistics.yields;
  sum.savedBlocks = statistics.savedBlocks;
  sum.saveAreasRefused = statistics.saveAreasRefused;
  sum.pauses = statistics.pauses;
  sum.confined = statistics.confinedLaunches;
  sum.confinedSms = statistics.confinedSms;
  sum.copiesByKernels = copiesByKernels.load();
  sum.waits = dispatcher->totals().waits;
  sum.requests = activity.controlWord().requests();
  return sum;
}

void BestEffortEngine::quiesce() {
  beOnOwnThread(api, device.number());
  dispatcher->bringToRest();
  // Work that was put there without the queue, and high-priority work.
  api.cudaDeviceSynchronize();
}

void BestEffortEngine::retire() {
  storm.reset();
  std::thread([this] {
    beOnOwnThread(api, device.number());
    activity.leaveDispatcher();
    dispatcher->close();
  }).join();
  saveProfiles();
}

} // namespace tally::hooks
