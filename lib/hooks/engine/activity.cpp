#include "engine/activity.h"

#include "state/own_thread.h"

#include <array>
#include <span>
#include <thread>

namespace tally::hooks {

namespace {

void warnOfArena(const Error &error) {
  warn(Warning::Arena,
       error.message + "; this process and others on the GPU do not see each other");
}

} // namespace

/// Runs on a thread of its own: a failing call leaves no error behind that the application's
/// threads would find.
Result<std::unique_ptr<Activity>> Activity::create(const CudaApi &api, Captures &captures,
                                                   Requests &requests, const Settings &settings,
                                                   int number, runtime::Trace *trace) {
  std::unique_ptr<Activity> made(new Activity(api, captures, requests, trace));
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
  control->setBusy(false); // no work could be told to yield
  highPriority.emplace(device, *control);
  highPriority->wakeTrace().to(trace);
  if (settings.arena.isJoined)
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
  // A best-effort process has no high-priority work.
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

void Activity::countRequest(Requests::Record &request, runtime::Nanoseconds at) {
  if (request.countedBy || request.streams.front()->device != device.number())
    return;
  // A wake writes on a stream of tally's own. A failed write must not prevent the request; the
  // device reports the error itself.
  InHook inside;
  if (highPriority->beginRequest(at))
    request.countedBy = this;
}

void Activity::endRequest(Requests::Record &request, runtime::Nanoseconds at) {
  InHook inside;
  constexpr std::size_t most = 16; // streams checked here; the monitor checks the others
  std::array<runtime::HighStream *, most> named{};
  std::size_t count = 0;
  for (StreamState *stream : request.streams) {
    runtime::HighStream *high = stream->device == device.number() ? highOf(*stream) : nullptr;
    if (!high || count == most)
      continue;
    named[count++] = high;
    if (!high->isOver() && isWaitedFor())
      highPriority->synchronizeBy(*high, [&] { return isDone(*stream); });
  }
  // An end writes nothing to the device, so no device can fail here.
  Result<bool> last = highPriority->endRequest(std::span(named.data(), count), at);
  if (last && *last)
    if (runtime::Dispatcher *dispatcher = served)
      dispatcher->resume();
}

/// A query that answers "no" leaves an error, which the program would find.
bool Activity::isDone(StreamState &stream) {
  if (stream.api->cudaPeekAtLastError() != cudaSuccess)
    return false;
  Result<bool> idle = device.isIdle(idOf(stream));
  if (idle && *idle)
    return true;
  stream.api->cudaGetLastError();
  return false;
}

bool Activity::isUrgent() const {
  return threadState.launchedHigh || requests.isAnyOf(&threadState) ||
         (requests.any() && !threadState.hasQueued);
}

runtime::HighStream *Activity::adopt(StreamState &stream) {
  std::unique_lock lock(adopting);
  if (runtime::HighStream *known = stream.high.load())
    return known;
  Result<runtime::HighStream *> adopted = highPriority->adopt(idOf(stream));
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

/// Where no process waits for the end of the stream's work, no thread would look for that end, and
/// the stream's record would be kept for ever.
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
  control->setBusy(true);
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
  device.end(true);
}

} // namespace tally::hooks
