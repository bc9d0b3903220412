#include "fake_device.h"

#include "tally/runtime/control_word.h"

#include <memory>
#include <stdexcept>
#include <utility>

namespace tally::runtime {

FakeDevice::~FakeDevice() {
  stop = true;
  if (thread.joinable())
    thread.join();
  if (blocksRunAtEnd)
    *blocksRunAtEnd = blockCount;
}

void FakeDevice::startThread() {
  threaded = true;
  thread = std::thread([this] {
    while (!stop)
      if (!advance())
        std::this_thread::yield();
  });
}

void FakeDevice::breakAfter(std::uint64_t steps, std::string message) {
  std::unique_lock lock(mutex);
  stepsToBreak = steps;
  breakMessage = std::move(message);
}

Result<void> FakeDevice::healthy() const {
  if (broken)
    return Error{*broken};
  return {};
}

bool FakeDevice::advance() {
  std::unique_lock lock(mutex);
  if (broken)
    return false;
  std::vector<FakeStream *> runnable;
  for (auto &[number, stream] : streams)
    if (!stream->queue.empty() && isReady(stream->queue.front()))
      runnable.push_back(stream.get());
  if (runnable.empty())
    return false;
  if (stepsToBreak-- == 0) {
    broken = breakMessage;
    return false;
  }
  FakeStream &picked = *runnable[random() % runnable.size()];
  runOne(picked);
  if (picked.isGone && picked.queue.empty()) {
    std::erase_if(streams, [&](const auto &each) { return each.second.get() == &picked; });
    --goneStreams;
  }
  return true;
}

/// Ends the test where the stream was destroyed.
FakeDevice::FakeStream &FakeDevice::at(StreamId stream) const {
  FakeStream &found = *streams.at(static_cast<std::uint64_t>(stream));
  if (found.isGone)
    throw std::logic_error("a call for a stream that was destroyed");
  return found;
}

bool FakeDevice::runOne(FakeStream &stream) {
  if (!stream.queue.front().run())
    return false;
  stream.queue.pop_front();
  ++stream.done;
  return true;
}

Result<void> FakeDevice::put(StreamId stream, std::function<bool()> run) {
  std::unique_lock lock(mutex);
  if (Result<void> fine = healthy(); !fine)
    return fine;
  FakeStream &target = at(stream);
  target.queue.push_back({{}, std::move(run)});
  ++target.put;
  return {};
}

Result<ModuleId> FakeDevice::loadModule(const bundle::Bundle &bundle) {
  std::unique_lock lock(mutex);
  auto id = static_cast<ModuleId>(++lastModule);
  modules.emplace(id, bundle);
  return id;
}

void FakeDevice::endFunctions(const std::function<bool(std::uint64_t, const Function &)> &isMeant) {
  std::erase_if(functions, [&](const auto &each) {
    bool ends = isMeant(each.first, *each.second);
    endedBusy += ends && each.second.use_count() > 1; // a launch has it too
    return ends;
  });
}

Result<void> FakeDevice::unloadModule(ModuleId module) {
  std::unique_lock lock(mutex);
  if (modules.erase(module) == 0)
    return Error{"unloadModule: no such module"};
  endFunctions([&](std::uint64_t, const Function &each) { return each.module == module; });
  return healthy();
}

Result<StreamId> FakeDevice::adoptStream(std::uint64_t nativeStream) {
  std::unique_lock lock(mutex);
  auto id = static_cast<StreamId>(nativeStream);
  if (!streams.contains(nativeStream))
    return Error{"no stream of the program's"};
  adoptedStreams.insert(id);
  return id;
}

void FakeDevice::releaseStream(StreamId stream) {
  std::unique_lock lock(mutex);
  endedBusy += !broken && !at(stream).queue.empty();
  adoptedStreams.erase(adoptedStreams.find(stream));
}

Result<AdoptedFunction> FakeDevice::adoptFunction(std::uint64_t nativeFunction, std::string_view) {
  std::unique_lock lock(mutex);
  auto known = functions.find(nativeFunction);
  if (known == functions.end())
    return Error{"no function of the program's"};
  AdoptedFunction adopted;
  adopted.id = static_cast<FunctionId>(nativeFunction);
  if (tellsParameters)
    adopted.parameters = known->second->parameters;
  adoptedFunctions.insert(adopted.id);
  return adopted;
}

void FakeDevice::releaseFunction(FunctionId function) {
  std::unique_lock lock(mutex);
  endedBusy += functions.at(static_cast<std::uint64_t>(function)).use_count() > 1;
  adoptedFunctions.erase(adoptedFunctions.find(function));
}

Result<FunctionId> FakeDevice::function(ModuleId module, std::string_view entry) {
  std::unique_lock lock(mutex);
  for (const bundle::Kernel &kernel : modules.at(module).kernels) {
    auto body = bodies.find(kernel.name);
    if (body == bodies.end())
      continue;
    auto add = [&](std::optional<Kind> kind, bool resume) {
      Function made{
          std::string(entry), body->second, kind, resume, kernel.tallyParameterOffset(), module,
          kernel.parameters};
      functions.emplace(++lastFunction, std::make_shared<const Function>(std::move(made)));
      return static_cast<FunctionId>(lastFunction);
    };
    if (entry == kernel.name)
      return add(std::nullopt, false);
    for (Kind kind : allKinds)
      for (bool resume : {false, true})
        if (kernel.emitted(kind) && entry == bundle::entryName(kernel.name, kind, resume))
          return add(kind, resume);
  }
  return Error{"function: no entry " + std::string(entry)};
}

Result<FunctionAttributes> FakeDevice::attributes(FunctionId) {
  return FunctionAttributes{32, 16, 1024};
}

Result<std::uint32_t> FakeDevice::residentBlocksPerSm(FunctionId, Dim3 block,
                                                      std::uint32_t dynamicSharedBytes) {
  std::uint32_t shared = (16 + dynamicSharedBytes + 1024 + 127) / 128 * 128;
  return block.count() > 512 || 2 * shared > facts.sharedBytesPerSm ? 1 : 2;
}

Result<DevicePtr> FakeDevice::allocate(std::size_t bytes) {
  std::unique_lock lock(mutex);
  if (Result<void> fine = healthy(); !fine)
    return fine.error();
  if (bytes > mostBytes)
    return Error{"allocate: out of memory"};
  // The allocation is a multiple of 8-byte words, as kernels and copies expect.
  std::vector<std::byte> memory((bytes + 7) / 8 * 8, std::byte{0xa5});
  auto pointer = reinterpret_cast<DevicePtr>(memory.data());
  allocations.emplace(pointer, std::move(memory));
  return pointer;
}

Result<void> FakeDevice::free(DevicePtr pointer) {
  std::unique_lock lock(mutex);
  if (allocations.erase(pointer) == 0)
    return Error{"free: not an allocation"};
  return {};
}

Result<MappedMemory> FakeDevice::allocateMapped(std::size_t bytes) {
  std::unique_lock lock(mutex);
  std::vector<std::byte> memory((bytes + 7) / 8 * 8);
  auto pointer = reinterpret_cast<DevicePtr>(memory.data());
  std::byte *host = memory.data();
  mapped.emplace(pointer, std::move(memory));
  return MappedMemory{host, pointer};
}

Result<StreamId> FakeDevice::createStream(StreamPriority priority) {
  std::unique_lock lock(mutex);
  auto stream = std::make_shared<FakeStream>();
  stream->priority = priority;
  streams.emplace(++lastStream, std::move(stream));
  return static_cast<StreamId>(lastStream);
}

Result<StreamId> FakeDevice::createConfinedStream(std::uint32_t) {
  Result<StreamId> made = createStream(StreamPriority::Low);
  std::unique_lock lock(mutex);
  at(*made).confined = true;
  return made;
}

Result<void> FakeDevice::destroyStream(StreamId stream) {
  std::unique_lock lock(mutex);
  FakeStream &ends = at(stream);
  if (ends.queue.empty() || broken) {
    streams.erase(static_cast<std::uint64_t>(stream));
    return {};
  }
  endedBusy += ends.priority != StreamPriority::Low; // lanes do
  ends.isGone = true;
  ++goneStreams;
  return {};
}

Result<void> FakeDevice::copyToDevice(StreamId stream, DevicePtr to,
                                      std::span<const std::byte> from) {
  return put(stream, [=] {
    std::memcpy(reinterpret_cast<void *>(to), from.data(), from.size());
    return true;
  });
}

Result<void> FakeDevice::copyToHost(StreamId stream, std::span<std::byte> to, DevicePtr from) {
  return put(stream, [=] {
    std::memcpy(to.data(), reinterpret_cast<const void *>(from), to.size());
    return true;
  });
}

Result<void> FakeDevice::fill(StreamId stream, DevicePtr to, std::byte value, std::size_t bytes) {
  if (refusesFills)
    return Error{"fill: refused"};
  std::unique_lock lock(mutex);
  if (FakeStream &on = at(stream); on.put == 0)
    on.filledFirst = bytes;
  return put(stream, [=] {
    std::memset(reinterpret_cast<void *>(to), std::to_integer<int>(value), bytes);
    return true;
  });
}

Result<void> FakeDevice::writeValue(StreamId stream, DevicePtr to, std::uint64_t value) {
  ++writeCount;
  return put(stream, [=] {
    std::atomic_ref(*reinterpret_cast<std::uint64_t *>(to)).store(value, std::memory_order_release);
    return true;
  });
}

Result<void> FakeDevice::waitForWords(StreamId stream, std::span<const WordWait> words) {
  std::unique_lock lock(mutex);
  Result<void> done = put(stream, [] { return true; });
  if (!done)
    return done;
  // The stream checks each word once the previous one holds its value.
  auto left = std::make_shared<std::deque<WordWait>>(words.begin(), words.end());
  at(stream).queue.back().ready = [this, left, hasWaited = false]() mutable {
    while (!left->empty()) {
      const WordWait &next = left->front();
      auto word = std::atomic_ref(*reinterpret_cast<std::uint32_t *>(next.address)).load();
      if (!next.holds(word)) {
        wordWaitCount += !std::exchange(hasWaited, true);
        return false;
      }
      left->pop_front();
    }
    return true;
  };
  return {};
}

Result<void> FakeDevice::writeValueWhen(StreamId stream, std::uint64_t reached, DevicePtr to,
                                        std::uint64_t value) {
  std::unique_lock lock(mutex);
  Result<void> done = writeValue(stream, to, value);
  if (!done)
    return done;
  at(stream).queue.back().ready = [this, reached] { return triggerWord.load() >= reached; };
  ++armedWrites;
  return {};
}

Result<void> FakeDevice::launch(StreamId stream, FunctionId function, const LaunchShape &shape,
                                std::span<const std::byte> parameters) {
  if (onDriverCall)
    onDriverCall();
  std::unique_lock lock(mutex);
  if (onLaunch)
    onLaunch();
  if (onLaunchShape)
    onLaunchShape(shape);
  auto running = std::make_shared<Running>();
  newestParameterBytes = parameters.size();
  running->function = functions.at(static_cast<std::uint64_t>(function));
  if (running->function->entry == refusedEntry)
    return Error{"launch: invalid argument"};
  const FakeStream &on = at(stream);
  confinedLaunches += on.confined;
  mostFilledFirst = std::max(mostFilledFirst, on.filledFirst);
  running->shape = shape;
  running->parameters.assign(parameters.begin(), parameters.end());
  return put(stream, [this, running] { return runBlock(*running); });
}

Result<bool> FakeDevice::isIdle(StreamId stream) {
  if (onDriverCall)
    onDriverCall();
  std::unique_lock lock(mutex);
  if (Result<void> fine = healthy(); !fine)
    return fine.error();
  return at(stream).queue.empty();
}

Result<void> FakeDevice::synchronize(StreamId stream) {
  for (;;) {
    Result<bool> idle = isIdle(stream);
    if (!idle)
      return idle.error();
    if (*idle)
      return {};
    if (threaded)
      std::this_thread::yield();
    else
      advance();
  }
}

Result<bool> FakeDevice::waitFor(StreamId later, StreamId earlier) {
  std::unique_lock lock(mutex);
  if (Result<void> fine = healthy(); !fine)
    return fine.error();
  if (unwaitable == earlier)
    return Error{"this stream cannot be waited for"};
  std::shared_ptr<FakeStream> before = streams.at(static_cast<std::uint64_t>(earlier));
  std::uint64_t until = before->put;
  FakeStream &after = at(later);
  if (std::exchange(after.awaited[earlier], until) == until)
    return false;
  ++waitCount;
  after.queue.push_back({[before, until] { return before->done >= until; }, [] { return true; }});
  ++after.put;
  return true;
}

} // namespace tally::runtime
