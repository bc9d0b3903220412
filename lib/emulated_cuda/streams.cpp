#include "streams.h"

#include <utility>
#include <vector>

namespace tally::hooks::emulated {

namespace {

/// CUDA's priorities go from 0 to -5 here; the device has three levels.
runtime::StreamPriority levelOf(int priority) {
  return priority >= 0    ? runtime::StreamPriority::Low
         : priority <= -5 ? runtime::StreamPriority::Control
                          : runtime::StreamPriority::High;
}

thread_local Stream *threadsStream = nullptr;

} // namespace

Streams &Streams::get() {
  static auto *only = new Streams;
  return *only;
}

std::unique_ptr<Stream> Streams::make(runtime::EmulatorDevice &device, unsigned flags,
                                      int priority) {
  auto id = device.createStream(levelOf(priority));
  if (!id)
    return nullptr;
  auto stream = std::make_unique<Stream>();
  stream->id = *id;
  stream->flags = flags;
  stream->priority = priority;
  stream->number = ++lastNumber;
  return stream;
}

Stream *Streams::legacyStream(runtime::EmulatorDevice &device) {
  if (!legacy) {
    legacy = make(device, cudaStreamDefault, 0);
    if (legacy)
      legacy->isLegacy = true;
  }
  return legacy.get();
}

Stream *Streams::find(cudaStream_t handle) {
  runtime::EmulatorDevice *device = Context::get().device();
  if (!device)
    return nullptr;
  std::scoped_lock lock(mutex);
  if (handle == nullptr || handle == cudaStreamLegacy)
    return legacyStream(*device);
  if (handle == cudaStreamPerThread) {
    if (!threadsStream) {
      // When the thread ends, other threads may still hold events of the stream, so it stays.
      auto made = make(*device, cudaStreamDefault, 0);
      threadsStream = made.get();
      if (!made)
        return nullptr;
      all.insert(made.get());
      streams.emplace(made.get(), std::move(made));
    }
    return threadsStream;
  }
  auto found = streams.find(handle);
  return found == streams.end() ? nullptr : found->second.get();
}

cudaError_t Streams::create(unsigned flags, int priority, cudaStream_t *result) {
  if (!result || flags & ~static_cast<unsigned>(cudaStreamNonBlocking))
    return cudaErrorInvalidValue;
  std::scoped_lock lock(mutex);
  auto stream = make(*Context::get().device(), flags, priority);
  if (!stream)
    return cudaErrorMemoryAllocation;
  all.insert(stream.get());
  *result = reinterpret_cast<cudaStream_t>(stream.get());
  streams.emplace(stream.get(), std::move(stream));
  return cudaSuccess;
}

cudaError_t Streams::destroy(cudaStream_t handle) {
  std::unique_ptr<Stream> stream;
  {
    std::scoped_lock lock(mutex);
    auto found = streams.find(handle);
    if (found == streams.end())
      return cudaErrorInvalidResourceHandle;
    stream = std::move(found->second);
    streams.erase(found);
  }
  // Until the stream's work is over, later work of other threads on the legacy stream comes behind
  // it.
  runtime::EmulatorDevice &device = *Context::get().device();
  Result<void> done = device.synchronize(stream->id);
  {
    std::scoped_lock lock(mutex);
    all.erase(stream.get());
  }
  if (!done)
    return Context::get().meaning(done);
  return Context::get().meaning(device.destroyStream(stream->id));
}

Result<void> Streams::prepare(runtime::EmulatorDevice &device, Stream &stream) {
  std::vector<runtime::EmulatorDevice::Marker> awaited;
  auto await = [&](const Stream &other) -> Result<void> {
    auto idle = device.isIdle(other.id);
    if (!idle)
      return idle.error();
    if (*idle)
      return {};
    auto marker = device.mark(other.id);
    if (!marker)
      return marker.error();
    awaited.push_back(std::move(*marker));
    return {};
  };
  {
    std::scoped_lock lock(mutex);
    if (stream.isLegacy) {
      for (Stream *each : all)
        if (each->isBlocking())
          if (auto done = await(*each); !done)
            return done;
    } else if (stream.isBlocking() && legacy) {
      if (auto done = await(*legacy); !done)
        return done;
    }
  }
  for (const auto &each : awaited)
    if (auto done = device.waitFor(stream.id, each); !done)
      return done;
  return {};
}

Result<void> Streams::synchronize(runtime::EmulatorDevice &device, Stream &stream) {
  if (stream.isLegacy)
    if (auto done = prepare(device, stream); !done)
      return done;
  auto done = device.synchronize(stream.id);
  Context::get().flushPrints();
  return done;
}

Result<bool> Streams::isIdle(runtime::EmulatorDevice &device, Stream &stream) {
  if (stream.isLegacy)
    if (auto done = prepare(device, stream); !done)
      return done.error();
  return device.isIdle(stream.id);
}

Result<void> Streams::synchronizeAll(runtime::EmulatorDevice &device) {
  std::vector<runtime::EmulatorDevice::Marker> markers;
  {
    std::scoped_lock lock(mutex);
    std::vector<Stream *> each(all.begin(), all.end());
    if (legacy)
      each.push_back(legacy.get());
    for (Stream *stream : each) {
      auto marker = device.mark(stream->id);
      if (!marker)
        return marker.error();
      markers.push_back(std::move(*marker));
    }
  }
  for (const auto &each : markers)
    if (auto done = device.synchronize(each); !done)
      return done;
  Context::get().flushPrints();
  return {};
}

bool Streams::leaveCapture(const Capture &capture, const std::vector<GraphNode *> &tips) {
  std::unordered_set<const GraphNode *> before(tips.begin(), tips.end());
  std::vector<const GraphNode *> pending(tips.begin(), tips.end());
  while (!pending.empty()) {
    const GraphNode *node = pending.back();
    pending.pop_back();
    for (const GraphNode *each : node->after)
      if (before.insert(each).second)
        pending.push_back(each);
  }
  bool isJoined = true;
  std::scoped_lock lock(mutex);
  for (Stream *stream : all)
    if (stream->capture.get() == &capture) {
      for (const GraphNode *each : stream->tips)
        isJoined &= before.contains(each);
      stream->capture.reset();
      stream->tips.clear();
    }
  return isJoined;
}

cudaError_t refuseInCapture(Stream &stream) {
  stream.capture->isInvalid = true;
  return cudaErrorStreamCaptureUnsupported;
}

cudaError_t submit(runtime::EmulatorDevice &device, Stream &stream, cudaGraphNodeType type,
                   GraphWork work) {
  if (stream.capture) {
    if (stream.capture->isInvalid)
      return cudaErrorStreamCaptureInvalidated;
    stream.tips = {stream.capture->graph->add(type, std::move(work), stream.tips)};
    return cudaSuccess;
  }
  if (auto ready = Streams::get().prepare(device, stream); !ready)
    return Context::get().meaning(ready);
  return Context::get().meaning(work(device, stream.id));
}

cudaError_t submit(runtime::EmulatorDevice &device, cudaStream_t handle, cudaGraphNodeType type,
                   GraphWork work) {
  Stream *stream = Streams::get().find(handle);
  return stream ? submit(device, *stream, type, std::move(work)) : cudaErrorInvalidResourceHandle;
}

} // namespace tally::hooks::emulated
