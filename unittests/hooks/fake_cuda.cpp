#include "fake_cuda.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace tally::test {

namespace {

FakeCuda *newest = nullptr;
thread_local cudaError_t threadsError = cudaSuccess;
thread_local int threadsDevice = 0;
thread_local bool threadHasContext = false;

} // namespace

FakeCuda::FakeCuda() {
  newest = this;
  setCalls(table);
  std::unique_lock lock(mutex);
  add(nullptr, true, 0);
}

FakeCuda &FakeCuda::current() { return *newest; }
int &FakeCuda::currentDevice() { return threadsDevice; }
bool &FakeCuda::hasContext() { return threadHasContext; }
cudaError_t &FakeCuda::lastError() { return threadsError; }

std::vector<std::size_t> FakeCuda::parameterSizes(const void *function) {
  std::unique_lock lock(mutex);
  auto found = functions.find(function);
  return found == functions.end() ? std::vector<std::size_t>{}
                                  : kernels[found->second].parameterSizes;
}

FakeCuda::~FakeCuda() {
  {
    std::unique_lock lock(mutex);
    stopping = true;
    changed.notify_all();
  }
  for (auto &[handle, stream] : streams)
    stream->thread.join();
}

FakeCuda::Stream &FakeCuda::add(cudaStream_t handle, bool blocking, int priority) {
  auto made = std::make_unique<Stream>();
  Stream &stream = *made;
  stream.handle = handle;
  stream.blocking = blocking;
  stream.priority = priority;
  stream.device = threadsDevice;
  streams[handle] = std::move(made);
  stream.thread = std::thread([this, &stream] { serve(stream); });
  return stream;
}

FakeCuda::Stream &FakeCuda::find(cudaStream_t handle) {
  if (handle == cudaStreamLegacy)
    handle = nullptr;
  auto found = streams.find(handle);
  if (found != streams.end())
    return *found->second;
  assert(handle == cudaStreamPerThread);
  return add(handle, true, 0);
}

bool FakeCuda::isLegacyCaptured(cudaStream_t handle) const {
  bool isLegacy = handle == nullptr || handle == cudaStreamLegacy;
  return isLegacy && std::ranges::any_of(streams, [](const auto &each) {
           return each.second->blocking && each.second->capturing;
         });
}

bool FakeCuda::isAllocated(const void *pointer) const {
  auto above = allocations.upper_bound(const_cast<void *>(pointer));
  if (above == allocations.begin())
    return false;
  const auto &[start, bytes] = *std::prev(above);
  return pointer < static_cast<const std::byte *>(start) + bytes;
}

bool FakeCuda::isDestroyed(cudaEvent_t event) {
  std::unique_lock lock(mutex);
  return destroyedEvents.contains(event);
}

bool FakeCuda::isPinned(const void *pointer) const {
  auto above = pinned.upper_bound(pointer);
  return above != pinned.begin() &&
         pointer < static_cast<const std::byte *>(*std::prev(above)) + sizeof(std::uint64_t);
}

bool FakeCuda::isDone(const Stream &stream, std::uint64_t sequence) const {
  return stream.operations.empty() || stream.operations.front().sequence > sequence;
}

/// The rule of the legacy stream: its operations wait for all earlier work of blocking streams, and
/// their operations wait for its earlier work.
bool FakeCuda::mayStart(const Stream &stream, const Operation &operation) const {
  bool legacy = stream.handle == nullptr;
  for (const auto &[handle, other] : streams)
    if (other.get() != &stream && stream.blocking && other->blocking &&
        (legacy || handle == nullptr) && !isDone(*other, operation.sequence))
      return false;
  return !operation.ready || operation.ready();
}

void FakeCuda::serve(Stream &stream) {
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [&] {
      return stopping ||
             (!stream.operations.empty() && mayStart(stream, stream.operations.front()));
    });
    if (stopping)
      return;
    auto run = stream.operations.front().run;
    lock.unlock();
    run();
    lock.lock();
    stream.operations.pop_front();
    changed.notify_all();
  }
}

std::uint64_t FakeCuda::put(cudaStream_t stream, std::function<void()> run,
                            std::function<bool()> ready) {
  std::unique_lock lock(mutex);
  find(stream).operations.push_back({++lastSequence, std::move(ready), std::move(run)});
  changed.notify_all();
  return lastSequence;
}

void FakeCuda::pin(const void *memory) {
  std::unique_lock lock(mutex);
  pinned.insert(memory);
}

void FakeCuda::waitFor(std::unique_lock<std::mutex> &lock, Stream &stream) {
  std::uint64_t until = lastSequence;
  bool legacy = stream.handle == nullptr;
  changed.wait(lock, [&] {
    for (const auto &[handle, other] : streams)
      if ((other.get() == &stream || (legacy && other->blocking)) && !isDone(*other, until))
        return false;
    return true;
  });
}

void FakeCuda::settle() {
  settleWhere([](const Stream &) { return true; });
}

void FakeCuda::settleControl() {
  settleWhere([](const Stream &stream) { return stream.priority == highestPriority; });
}

void FakeCuda::settleWhere(const std::function<bool(const Stream &)> &meant) {
  std::unique_lock lock(mutex);
  std::uint64_t until = lastSequence;
  changed.wait(lock, [&] {
    for (const auto &[handle, stream] : streams)
      if (meant(*stream) && !isDone(*stream, until))
        return false;
    return true;
  });
}

cudaError_t FakeCuda::launch(const void *function, dim3 grid, dim3 block, void **arguments,
                             cudaStream_t stream, bool cooperative) {
  FakeLaunch made;
  std::function<void(const FakeLaunch &)> run;
  {
    std::unique_lock lock(mutex);
    auto found = functions.find(function);
    if (found == functions.end())
      return failed(cudaErrorInvalidDeviceFunction);
    bool isDefault = !stream || stream == cudaStreamLegacy || stream == cudaStreamPerThread;
    if (!isDefault && find(stream).device != threadsDevice)
      return failed(cudaErrorInvalidResourceHandle);
    devicesOf[found->second].insert(threadsDevice);
    streamsOf[found->second].insert(stream == cudaStreamLegacy ? nullptr : stream);
    spoiltCaptures += isLegacyCaptured(stream);
    if (grid.x == 0 || block.x == 0 || block.x > 1024)
      return failed(cudaErrorInvalidConfiguration);
    const Kernel &kernel = kernels.at(found->second);
    made = {found->second, grid, block, {}, cooperative};
    for (std::size_t i = 0; i < kernel.parameterSizes.size(); ++i) {
      auto bytes = static_cast<const std::byte *>(arguments[i]);
      made.arguments.emplace_back(bytes, bytes + kernel.parameterSizes[i]);
    }
    run = kernel.run;
  }
  put(stream, [this, made, run] {
    run(made);
    note(made.name);
  });
  return cudaSuccess;
}

void FakeCuda::addKernel(const std::string &name, Kernel kernel) {
  std::unique_lock lock(mutex);
  kernels[name] = std::move(kernel);
}

void FakeCuda::note(const std::string &what) {
  std::unique_lock lock(mutex);
  done.push_back(what);
}

std::vector<std::string> FakeCuda::log() {
  std::unique_lock lock(mutex);
  return done;
}

std::map<std::string, std::map<int, int>> FakeCuda::attributes() {
  std::unique_lock lock(mutex);
  return attributesSet;
}

} // namespace tally::test
