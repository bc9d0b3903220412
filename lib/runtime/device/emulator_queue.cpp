#include "device/emulator_queue.h"

#include <algorithm>
#include <chrono>

namespace tally::runtime {

namespace {

constexpr std::chrono::microseconds pollInterval{50};

} // namespace

EmulatorQueue::EmulatorQueue(std::uint32_t virtualSms) {
  for (std::uint32_t i = 0; i < virtualSms; ++i)
    threads.emplace_back([this, i] { runBlocks(i); });
  for (Runner each : {Runner::Anyone, Runner::HostThread})
    threads.emplace_back([this, each] { runActions(each); });
}

EmulatorQueue::~EmulatorQueue() {
  {
    Lock lock(mutex);
    stopping = true;
    changed.notify_all();
  }
  for (std::thread &each : threads)
    each.join();
}

Result<std::shared_ptr<EmulatorQueue::Stream>> EmulatorQueue::find(StreamId id) {
  if (!failure.empty())
    return Error{failure};
  auto found = streams.find(id);
  if (found == streams.end())
    return Error{"no stream " + std::to_string(static_cast<std::uint64_t>(id))};
  return found->second;
}

StreamId EmulatorQueue::createStream(StreamPriority priority) {
  Lock lock(mutex);
  auto id = static_cast<StreamId>(++lastStream);
  auto stream = std::make_shared<Stream>();
  stream->priority = priority;
  streams.emplace(id, std::move(stream));
  return id;
}

Result<void> EmulatorQueue::destroyStream(StreamId id) {
  if (Result<void> done = synchronize(id); !done)
    return done;
  Lock lock(mutex);
  streams.erase(id);
  return {};
}

bool EmulatorQueue::headIsReady(const Stream &stream, Runner runner) {
  if (stream.busy || stream.operations.empty())
    return false;
  const Operation &head = stream.operations.front();
  if (head.isForHost != (runner == Runner::HostThread))
    return false;
  return !head.grid && (!head.awaited || head.awaited->done >= head.count) &&
         (!head.holds || head.holds());
}

void EmulatorQueue::finishHead(Stream &stream) {
  stream.operations.pop_front();
  ++stream.done;
  changed.notify_all();
}

/// Runs operations from the head of the stream, up to the next grid or unmet wait.
void EmulatorQueue::drain(Lock &lock, const std::shared_ptr<Stream> &stream, Runner runner) {
  while (failure.empty() && headIsReady(*stream, runner)) {
    std::function<Result<void>()> action = std::move(stream->operations.front().action);
    if (action) {
      stream->busy = true;
      lock.unlock();
      Result<void> done = action();
      lock.lock();
      stream->busy = false;
      if (!done)
        fail(done.error().message);
      if (stream->operations.empty())
        return; // a fault emptied the queue meanwhile
    }
    finishHead(*stream);
  }
}

Result<void> EmulatorQueue::add(StreamId id, Operation operation) {
  Lock lock(mutex);
  auto stream = find(id);
  if (!stream)
    return stream.error();
  (*stream)->operations.push_back(std::move(operation));
  ++(*stream)->enqueued;
  drain(lock, *stream);
  changed.notify_all();
  return {};
}

Result<void> EmulatorQueue::launch(StreamId id, std::unique_ptr<emulator::GridExecution> grid) {
  Operation operation;
  operation.grid = std::move(grid);
  return add(id, std::move(operation));
}

Result<void> EmulatorQueue::enqueue(StreamId id, std::function<Result<void>()> action) {
  Operation operation;
  operation.action = std::move(action);
  return add(id, std::move(operation));
}

Result<void> EmulatorQueue::enqueueForHost(StreamId id, std::function<void()> action) {
  Operation operation;
  operation.action = [action = std::move(action)]() -> Result<void> {
    action();
    return {};
  };
  operation.isForHost = true;
  return add(id, std::move(operation));
}

Result<void> EmulatorQueue::waitUntil(StreamId id, std::function<bool()> holds) {
  Operation operation;
  operation.holds = std::move(holds);
  return add(id, std::move(operation));
}

Result<EmulatorQueue::Marker> EmulatorQueue::mark(StreamId id) {
  Lock lock(mutex);
  auto stream = find(id);
  if (!stream)
    return stream.error();
  Marker marker;
  marker.stream = *stream;
  marker.count = (*stream)->enqueued;
  return marker;
}

Result<bool> EmulatorQueue::waitFor(StreamId later, StreamId earlier) {
  Result<Marker> marker = mark(earlier);
  if (!marker)
    return marker.error();
  if (Result<void> waits = waitFor(later, *marker); !waits)
    return waits.error();
  return true;
}

Result<void> EmulatorQueue::waitFor(StreamId later, const Marker &marker) {
  Operation operation;
  operation.awaited = marker.stream;
  operation.count = marker.count;
  return add(later, std::move(operation));
}

Result<bool> EmulatorQueue::isReached(const Marker &marker) {
  Lock lock(mutex);
  if (!failure.empty())
    return Error{failure};
  return !marker.stream || marker.stream->done >= marker.count;
}

Result<void> EmulatorQueue::synchronize(const Marker &marker) {
  Lock lock(mutex);
  changed.wait(lock, [&] {
    return !failure.empty() || !marker.stream || marker.stream->done >= marker.count;
  });
  if (!failure.empty())
    return Error{failure};
  return {};
}

Result<bool> EmulatorQueue::isIdle(StreamId id) {
  Lock lock(mutex);
  auto stream = find(id);
  if (!stream)
    return stream.error();
  return (*stream)->done == (*stream)->enqueued;
}

Result<void> EmulatorQueue::synchronize(StreamId id) {
  Result<Marker> marker = mark(id);
  if (!marker)
    return marker.error();
  return synchronize(*marker);
}

Result<void> EmulatorQueue::health() {
  Lock lock(mutex);
  if (!failure.empty())
    return Error{failure};
  return {};
}

std::optional<emulator::Fault> EmulatorQueue::fault() {
  Lock lock(mutex);
  return kernelFault;
}

void EmulatorQueue::fail(std::string message) {
  if (failure.empty())
    failure = std::move(message);
  // Nothing runs after a fault; a head operation that a thread is still running ends by itself.
  for (auto &[id, stream] : streams)
    stream->operations.clear();
  changed.notify_all();
}

std::shared_ptr<EmulatorQueue::Stream> EmulatorQueue::nextGrid() {
  std::shared_ptr<Stream> best;
  for (auto &[id, stream] : streams) {
    if (stream->operations.empty() || !stream->operations.front().grid ||
        !stream->operations.front().grid->hasBlock())
      continue;
    if (!best || stream->priority < best->priority)
      best = stream;
  }
  return best;
}

std::shared_ptr<EmulatorQueue::Stream> EmulatorQueue::nextAction(Runner runner) {
  std::shared_ptr<Stream> best;
  for (auto &[id, stream] : streams)
    if (headIsReady(*stream, runner) && (!best || stream->priority < best->priority))
      best = stream;
  return best;
}

void EmulatorQueue::runBlocks(std::uint32_t virtualSm) {
  Lock lock(mutex);
  while (true) {
    std::shared_ptr<Stream> stream;
    changed.wait(lock, [&] { return stopping || (stream = nextGrid()); });
    if (stopping)
      return;
    std::shared_ptr<emulator::GridExecution> grid = stream->operations.front().grid;
    lock.unlock();
    grid->runBlock(virtualSm);
    lock.lock();
    if (!grid->finished())
      continue;
    if (auto fault = grid->fault()) {
      if (failure.empty())
        kernelFault = fault;
      fail(fault->message);
    } else if (!stream->operations.empty() && stream->operations.front().grid == grid) {
      finishHead(*stream);
      drain(lock, stream);
    }
  }
}

bool EmulatorQueue::isPolled() const {
  return std::any_of(streams.begin(), streams.end(), [](const auto &each) {
    const auto &operations = each.second->operations;
    return !operations.empty() && operations.front().holds;
  });
}

void EmulatorQueue::runActions(Runner runner) {
  Lock lock(mutex);
  while (true) {
    std::shared_ptr<Stream> stream;
    auto isAwake = [&] { return stopping || (stream = nextAction(runner)); };
    // Stores that make a wait hold notify no thread, so poll.
    while (!isAwake())
      if (isPolled())
        changed.wait_for(lock, pollInterval);
      else
        changed.wait(lock);
    if (stopping)
      return;
    drain(lock, stream, runner);
  }
}

} // namespace tally::runtime
