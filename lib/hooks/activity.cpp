#include "activity.h"

#include "own_thread.h"

#include <thread>

namespace tally::hooks {

namespace {

void warnOfArena(const Error &error) {
  warn(Warning::Arena,
       error.message + "; this process and others on the GPU do not see each other");
}

} // namespace

/// On a thread of its own: what fails there leaves no error behind that the application's threads
/// would find.
Result<std::unique_ptr<Activity>> Activity::create(const CudaApi &api, Captures &captures,
                                                   const Settings &settings, int number,
                                                   runtime::Trace *trace) {
  std::unique_ptr<Activity> made(new Activity(api, captures, trace));
  Result<void> opened;
  std::thread([&] {
    beOnOwnThread(api, number);
    opened = made->open(api, settings);
  }).join();
  if (!opened)
    return opened.error();
  return made;
}

Result<void> Activity::open(const CudaApi &api, const Settings &settings) {
  if (Result<void> done = device.open(); !done)
    return done;
  control.emplace(runtime::ControlWriter{&device, {}, 0},
                  runtime::ClockFunction(runtime::SteadyClock()));
  highPriority.emplace(device, *control);
  highPriority->traceTo(trace);
  if (settings.joinsArena)
    join(settings);
  if (link)
    monitor = std::make_unique<runtime::HighMonitor>(
        *highPriority, *link, [&api, number = device.number()] { beOnOwnThread(api, number); });
  return {};
}

void Activity::join(const Settings &settings) {
  auto resume = [this] {
    if (runtime::Dispatcher *dispatcher = served)
      dispatcher->resume();
  };
  runtime::ArenaOptions options;
  options.bestEffortClass = settings.bestEffortClass;
  auto opened =
      runtime::ArenaLink::open(options, device.info().uuid, *control, *highPriority, resume);
  if (!opened)
    return warnOfArena(opened.error());
  (*opened)->traceTo(trace);
  // Nothing of such a process is of high priority.
  if (!settings.bestEffort)
    if (Result<void> joined = (*opened)->join(runtime::Class::High, {}); !joined)
      return warnOfArena(joined.error());
  link = std::move(*opened);
}

void Activity::countWhatWasThere(const std::vector<StreamState *> &streams) {
  for (StreamState *stream : streams)
    if (!stream->bestEffort && stream->launches.load() != 0)
      if (runtime::HighStream *high = highOf(*stream); high && highPriority->beginCall(*high))
        highPriority->endCall(*high);
}

runtime::HighStream *Activity::adopt(StreamState &stream) {
  std::unique_lock lock(adopting);
  if (runtime::HighStream *known = stream.high.load())
    return known;
  Result<runtime::HighStream *> adopted = highPriority->adopt(ApiDevice::idOf(stream));
  if (!adopted) {
    warn(Warning::NoDevice,
         adopted.error().message + "; some high-priority work is not seen by best-effort work");
    return nullptr;
  }
  stream.high.store(*adopted, std::memory_order_release);
  return *adopted;
}

void Activity::mark(StreamState &stream) {
  if (captures.takesPart(*stream.api, stream.handle))
    return;
  cudaEvent_t marker = stream.marker.load();
  if (!marker &&
      stream.api->cudaEventCreateWithFlags(&marker, cudaEventDisableTiming) != cudaSuccess)
    return;
  stream.api->cudaEventRecord(marker, stream.handle);
  stream.marker.store(marker);
}

/// Where nobody waits for the end of its work, nobody would look for it either, and what is known
/// of the stream would be kept for ever.
void Activity::forget(StreamState &stream) {
  runtime::HighStream *high = stream.high.load();
  if (high && !high->isClosed()) {
    if (isWaitedFor())
      mark(stream);
    else
      highPriority->abandon(*high);
  }
  stream.leaving = true;
  device.awaitCalls();
}

void Activity::serve(runtime::Dispatcher &dispatcher) {
  monitor.reset();
  served = &dispatcher;
  if (!link)
    return;
  dispatcher.setNeighbours(link.get());
  if (Result<void> joined = link->join(runtime::Class::BestEffort, {}); !joined)
    warnOfArena(joined.error());
}

void Activity::leaveDispatcher() {
  if (link)
    link->stopWatching();
}

void Activity::retire() {
  monitor.reset();
  if (link)
    link->leave();
  device.retire();
}

} // namespace tally::hooks
