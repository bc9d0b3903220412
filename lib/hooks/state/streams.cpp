#include "state/streams.h"

#include <algorithm>

namespace tally::hooks {

namespace {

int currentDevice(const CudaApi &api) {
  int device = 0;
  return api.cudaGetDevice(&device) == cudaSuccess ? device : 0;
}

/// Launches that the stream's owner has made on the fastest path.
std::uint64_t ownLaunches(const StreamState &state) {
  const runtime::HighStream *high = state.high.load();
  return high ? high->ownMade.load() : 0;
}

/// Whether no high-priority work is known to be on a stream that is gone.
bool isReusable(const StreamState &state) {
  const runtime::HighStream *high = state.high.load();
  return state.destroyed && (!high || high->isClosed());
}

} // namespace

thread_local std::vector<StreamTable::OfThread> StreamTable::ofThread;

StreamState &StreamTable::findSlowly(const CudaApi &api, cudaStream_t handle) {
  std::uint64_t now = generation.load();
  StreamState *found = nullptr;
  if (handle == nullptr || handle == cudaStreamLegacy) {
    found = &defaultStream(api, StreamKind::Legacy, handle);
  } else if (handle == cudaStreamPerThread) {
    found = &defaultStream(api, StreamKind::PerThread, handle);
  } else {
    std::unique_lock lock(mutex);
    auto known = byHandle.find(handle);
    if (known != byHandle.end())
      found = known->second;
  }
  if (!found) {
    // The stream was made by code that is not linked with the hooks.
    unsigned flags = 0;
    int priority = 0;
    api.cudaStreamGetFlags(handle, &flags);
    api.cudaStreamGetPriority(handle, &priority);
    std::unique_lock lock(mutex);
    bool nonBlocking = (flags & cudaStreamNonBlocking) != 0;
    found =
        &add(api, handle, nonBlocking ? StreamKind::NonBlocking : StreamKind::Blocking, priority);
    byHandle[handle] = found;
  }
  threadState.last = {.handle = handle, .state = found, .generation = now};
  return *found;
}

StreamState &StreamTable::defaultStream(const CudaApi &api, StreamKind kind, cudaStream_t handle) {
  int device = currentDevice(api);
  if (kind == StreamKind::PerThread) {
    std::uint64_t now = lifeOf(device).load();
    for (const OfThread &each : ofThread)
      if (each.device == device && each.life == now)
        return *each.state;
    std::unique_lock lock(mutex);
    StreamState &state = add(api, handle, kind, 0);
    ofThread.push_back({device, &state, now});
    return state;
  }
  std::unique_lock lock(mutex);
  StreamState *&state = legacy[device];
  if (!state)
    state = &add(api, nullptr, kind, 0);
  return *state;
}

StreamState &StreamTable::add(const CudaApi &api, cudaStream_t handle, StreamKind kind,
                              int priority) {
  auto free = std::find_if(states.begin(), states.end(), isReusable);
  StreamState &state = free != states.end() ? *free : states.emplace_back();
  state.handle = handle;
  ++state.uses;
  state.api = &api;
  state.kind = kind;
  state.device = currentDevice(api);
  devicesUsed.fetch_or(bitOf(state.device));
  state.priority = priority;
  state.bestEffort = processIsBestEffort;
  Priorities priorities;
  state.bestEffortClass = areRanked && Priorities::ask(api, priorities) == cudaSuccess
                              ? priorities.bestEffortClass(priority)
                              : 1;
  state.lastTicket = 0;
  state.destroyed = false;
  state.leaving = false;
  if (runtime::HighStream *known = state.high.load())
    known->isNamed = false; // the class was set for another stream
  if (cudaEvent_t marker = state.marker.exchange(nullptr))
    api.cudaEventDestroy(marker);
  return state;
}

bool StreamTable::created(const CudaApi &api, cudaStream_t handle, unsigned flags, int priority) {
  std::unique_lock lock(mutex);
  StreamState &added =
      add(api, handle,
          (flags & cudaStreamNonBlocking) != 0 ? StreamKind::NonBlocking : StreamKind::Blocking,
          priority);
  // A stream below another one in use is best effort, whichever of the two came first.
  for (const auto &[other, state] : byHandle) {
    if (state->priority > priority)
      state->bestEffort = true;
    else if (state->priority < priority)
      added.bestEffort = true;
  }
  StreamState *&known = byHandle[handle];
  // Code that is not linked with the hooks destroyed the stream, and its handle is used again.
  if (known)
    known->destroyed = true;
  known = &added;
  forgetKnown();
  return std::any_of(byHandle.begin(), byHandle.end(),
                     [](const auto &each) { return each.second->bestEffort.load(); });
}

void StreamTable::destroyed(StreamState &state) {
  std::unique_lock lock(mutex);
  byHandle.erase(state.handle);
  state.destroyed = true;
  forgetKnown();
}

void StreamTable::clear(int device) {
  std::unique_lock lock(mutex);
  for (StreamState &state : states)
    if (state.device == device) {
      state.destroyed = true;
      state.launches += ownLaunches(state);
      state.high = nullptr;
      state.marker = nullptr;
    }
  std::erase_if(byHandle, [&](const auto &each) { return each.second->device == device; });
  legacy.erase(device);
  lifeOf(device).fetch_add(1);
  forgetKnown();
}

void StreamTable::setClass(StreamState &state, bool bestEffort) {
  state.bestEffort = bestEffort || processIsBestEffort;
  forgetKnown();
}

void StreamTable::setBestEffortClass(StreamState &state, std::uint32_t number) {
  state.bestEffortClass = number;
  setClass(state, true);
}

cudaError_t Priorities::ask(const CudaApi &api, Priorities &found) {
  cudaError_t status = api.cudaDeviceGetStreamPriorityRange(&found.lowest, &found.highest);
  if (status == cudaSuccess && found.lowest - found.highest >= 2)
    ++found.highest;
  return status;
}

std::uint32_t Priorities::bestEffortClass(int priority) const {
  constexpr int lowestClass = runtime::lowestBestEffortClass;
  return static_cast<std::uint32_t>(std::clamp(priority - highest, 1, lowestClass));
}

std::size_t StreamTable::count() {
  std::unique_lock lock(mutex);
  return byHandle.size();
}

std::vector<StreamState *> StreamTable::all() {
  std::unique_lock lock(mutex);
  std::vector<StreamState *> found;
  for (StreamState &state : states)
    if (!state.destroyed)
      found.push_back(&state);
  return found;
}

std::set<std::uint32_t> StreamTable::bestEffortClasses(int device) {
  std::unique_lock lock(mutex);
  std::set<std::uint32_t> found;
  for (const auto &[handle, state] : byHandle)
    if (state->bestEffort && state->device == device)
      found.insert(state->bestEffortClass);
  return found;
}

std::uint64_t StreamTable::launches() {
  std::unique_lock lock(mutex);
  std::uint64_t sum = 0;
  for (const StreamState &state : states)
    sum += state.launches.load() + ownLaunches(state);
  return sum;
}

} // namespace tally::hooks
