#include "tally/runtime/runtime.h"

#include "api/runtime_state.h"
#include "device/driver_environment.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace tally::runtime {

namespace {

Nanoseconds steadyNow() { return SteadyClock{}(); }

/// The parameter space of the user's kernel; `storage` is used where the arguments end before it.
std::span<const std::byte> parameterSpace(const LoadedKernel &kernel, const Arguments &arguments,
                                          std::vector<std::byte> &storage) {
  std::size_t bytes = kernel.parameterBytes(arguments.bytes().size());
  if (arguments.bytes().size() == bytes)
    return arguments.bytes();
  storage.assign(arguments.bytes().begin(), arguments.bytes().end());
  storage.resize(bytes);
  return storage;
}

} // namespace

Result<void> Runtime::State::initialise() {
  if (options.sharing != Sharing::Tally)
    return {};
  Result<StreamId> controlStream = device->createStream(StreamPriority::Control);
  if (!controlStream)
    return controlStream.error();
  Result<DevicePtr> word = device->allocate(64);
  if (!word)
    return word.error();
  if (Result<void> checked = checkControlStream(*word, *controlStream); !checked)
    return checked;
  if (Result<void> opened = openTrace(); !opened)
    return opened;
  control.emplace(ControlWriter{device.get(), *controlStream, *word}, ClockFunction(steadyNow));
  control->setTrigger(device->trigger());
  highPriority = std::make_unique<RequestScopeTracker>(*device, *control);
  highPriority->wakeTrace().to(trace.get());
  DispatcherOptions dispatching;
  dispatching.policy = options.policy;
  dispatching.lane.measures = options.profiling == Profiling::On;
  std::string path =
      options.profilePath.empty() ? ProfileStore::defaultPath(device->info()) : options.profilePath;
  if (dispatching.lane.measures && !path.empty())
    dispatching.lane.profiles = &profiles.emplace(path, device->info());
  // More lanes tell more clients apart, but use more streams.
  dispatching.lanes = options.policy.usesClients() ? 4 : 2;
  dispatching.lane.kinds = options.kinds;
  dispatching.lane.control = *word;
  dispatching.lane.bound = options.bound;
  dispatching.lane.reserve = options.pauseReserve;
  dispatching.pauseDeadline = options.pauseDeadline;
  dispatching.lane.smsOfNonPreemptible = options.smsOfNonPreemptible;
  // Where the device cannot confine streams, the number of thread blocks keeps work to its SMs.
  // Under MPS kernels on two streams slow the other processes down.
  if (options.policy.limitsSms() && !isMpsRunning())
    if (Result<ConfinedSizes> sizes = confinedSizesOf(*device))
      dispatching.lane.confinedSizes = std::move(*sizes);
  dispatching.lane.clock = steadyNow;
  dispatching.lane.trace = trace.get();
  auto made = Dispatcher::create(*device, *control, *highPriority, std::move(dispatching));
  if (!made)
    return made.error();
  dispatcher = std::move(*made);
  if (options.arena && !isArenaOff(*options.arena)) {
    auto joined = ArenaLink::open(*options.arena, device->info().uuid, *control, *highPriority,
                                  [this] { dispatcher->resume(); });
    if (!joined)
      return joined.error();
    arena = std::move(*joined);
    arena->traceTo(trace.get());
    dispatcher->setNeighbours(arena.get());
  }
  dispatcher->start();
  return {};
}

/// Sets the control word and checks that a stream write arrives in device memory: all promises to
/// high-priority work depend on it.
Result<void> Runtime::State::checkControlStream(DevicePtr address, StreamId stream) {
  Result<MappedMemory> mirror = device->allocateMapped(sizeof(std::uint64_t));
  if (!mirror)
    return mirror.error();
  constexpr std::uint64_t expected = DeviceControl::initialWord();
  Result<void> done = device->writeValue(stream, address, expected);
  if (done)
    done = device->copyToHost(stream, {mirror->host, sizeof expected}, address);
  if (done)
    done = device->synchronize(stream);
  if (!done)
    return done;
  std::uint64_t seen = 0;
  std::memcpy(&seen, mirror->host, sizeof seen);
  if (seen != expected)
    return Error{"the control word does not reach device memory by a stream write"};
  return {};
}

Result<StreamRecord *> Runtime::State::findStream(Stream stream) const {
  auto handle = static_cast<std::uint64_t>(stream);
  StreamRecord *record = streams.find(handle);
  if (!record)
    return Error{"no such stream: " + streams.describe(handle)};
  return record;
}

/// Makes a call that puts work on a stream of the device. `call` takes the stream.
template <class Call> Result<void> Runtime::State::pass(StreamRecord &stream, const Call &call) {
  if (stream.plain)
    return call(stream.plain->id);
  if (!highPriority)
    return call(stream.high->id);
  if (Result<void> begun = highPriority->beginCall(*stream.high); !begun)
    return begun;
  Result<void> done = call(stream.high->id);
  highPriority->endCall(*stream.high);
  return done;
}

Result<void> Runtime::State::enqueue(StreamRecord &stream, Operation &&operation) {
  operation.stream = stream.bestEffort.get();
  Result<std::uint64_t> submitted = stream.bestEffort->lane.submit(std::move(operation));
  dispatcher->wake();
  return submitted ? Result<void>() : submitted.error();
}

Result<void> Runtime::State::synchronize(StreamRecord &stream) {
  if (stream.bestEffort)
    return stream.bestEffort->lane.wait(*stream.bestEffort);
  if (stream.plain) {
    std::uint64_t launched = stream.plain->launched.load();
    Result<void> done = device->synchronize(stream.plain->id);
    std::uint64_t known = stream.plain->finished.load();
    while (done && known < launched)
      if (stream.plain->finished.compare_exchange_weak(known, launched)) {
        plainFinished.fetch_add(launched - known);
        break;
      }
    return done;
  }
  return highPriority ? highPriority->synchronize(*stream.high)
                      : device->synchronize(stream.high->id);
}

Result<void> Runtime::State::waitFor(StreamRecord &stream) {
  // Count in, then read `isClosed`; close() works in the reverse order. So one sees the other.
  stream.waiting.fetch_add(1);
  Result<void> done = stream.isClosed.load() ? Result<void>() : synchronize(stream);
  stream.waiting.fetch_sub(1);
  return done;
}

Result<void> Runtime::State::waitForAll() {
  Result<void> all;
  for (const std::shared_ptr<StreamRecord> &stream : streams.entries())
    if (Result<void> done = waitFor(*stream); !done && all)
      all = done;
  return all;
}

/// Does not wait for best-effort streams: operations that were not sent are never sent.
void Runtime::State::quiesce() {
  if (dispatcher)
    dispatcher->bringToRest();
  for (const std::shared_ptr<StreamRecord> &stream : streams.entries())
    if (!stream->bestEffort)
      static_cast<void>(waitFor(*stream)); // on an error the device has failed and runs nothing
  if (trace)
    static_cast<void>(trace->write());
}

Runtime::Runtime(std::unique_ptr<State> made) : state(std::move(made)) {}
Runtime::~Runtime() = default;

Result<std::unique_ptr<Runtime>> Runtime::open(const RuntimeOptions &options) {
  if (options.device != "cuda" && options.device != "emulator")
    return Error{"unknown device '" + options.device + "'; there are 'cuda' and 'emulator'"};
  if (Result<void> fine = checkOptions(options); !fine)
    return fine.error();
  if (options.device == "cuda" && options.arena && options.arena->bestEffortOnly)
    prepareDriverEnvironment(true);
  Result<std::unique_ptr<Device>> device =
      options.device == "cuda" ? openCudaDevice() : openEmulatorDevice(options.emulator);
  if (!device)
    return device.error();
  return openOn(std::move(*device), options);
}

Result<std::unique_ptr<Runtime>> Runtime::openOn(std::unique_ptr<Device> device,
                                                 const RuntimeOptions &options) {
  RuntimeOptions whole = options;
  if (Result<void> fine = checkOptions(options); !fine)
    return fine.error();
  if (Result<void> added = addEnvironment(whole); !added)
    return added.error();
  auto state = std::make_unique<State>(std::move(device), std::move(whole));
  if (Result<void> ready = state->initialise(); !ready)
    return ready.error();
  if (options.drainOnTermination.count() != 0)
    state->termination =
        drainOnTermination({[raw = state.get()] { raw->quiesce(); }, options.drainOnTermination});
  return std::unique_ptr<Runtime>(new Runtime(std::move(state)));
}

const DeviceInfo &Runtime::deviceInfo() const { return state->device->info(); }

Result<void> Runtime::copyToDevice(Stream stream, DevicePtr to, std::span<const std::byte> from) {
  Result<StreamRecord *> record = state->findStream(stream);
  if (!record)
    return record.error();
  if (!(*record)->bestEffort)
    return state->pass(**record,
                       [&](StreamId id) { return state->device->copyToDevice(id, to, from); });
  Operation operation;
  operation.type = Operation::Type::CopyToDevice;
  operation.transfer.device = to;
  operation.transfer.from = from;
  return state->enqueue(**record, std::move(operation));
}

Result<void> Runtime::copyToHost(Stream stream, std::span<std::byte> to, DevicePtr from) {
  Result<StreamRecord *> record = state->findStream(stream);
  if (!record)
    return record.error();
  if (!(*record)->bestEffort)
    return state->pass(**record,
                       [&](StreamId id) { return state->device->copyToHost(id, to, from); });
  Operation operation;
  operation.type = Operation::Type::CopyToHost;
  operation.transfer.device = from;
  operation.transfer.to = to;
  return state->enqueue(**record, std::move(operation));
}

Result<void> Runtime::fill(Stream stream, DevicePtr to, std::byte value, std::size_t bytes) {
  Result<StreamRecord *> record = state->findStream(stream);
  if (!record)
    return record.error();
  if (!(*record)->bestEffort) {
    if (state->pauses() && (*record)->high)
      state->highPriority->headroom().seeOfDriver();
    return state->pass(**record,
                       [&](StreamId id) { return state->device->fill(id, to, value, bytes); });
  }
  Operation operation;
  operation.type = Operation::Type::Fill;
  operation.transfer.device = to;
  operation.transfer.value = value;
  operation.transfer.bytes = bytes;
  return state->enqueue(**record, std::move(operation));
}

Result<void> Runtime::launch(Stream stream, Kernel kernel, const LaunchShape &shape,
                             const Arguments &arguments) {
  Result<StreamRecord *> record = state->findStream(stream);
  if (!record)
    return record.error();
  LoadedKernel *loaded = state->kernels.find(static_cast<std::uint64_t>(kernel));
  if (!loaded)
    return Error{"no such kernel: " + state->kernels.describe(static_cast<std::uint64_t>(kernel))};
  if (Result<void> fine = loaded->check(*state->device, shape, arguments.bytes().size()); !fine)
    return fine;
  if ((*record)->bestEffort) {
    Operation operation;
    operation.kernel = loaded;
    operation.shape = shape;
    operation.parameters = SharedBytes(arguments.bytes());
    return state->enqueue(**record, std::move(operation));
  }
  std::vector<std::byte> storage;
  std::span<const std::byte> parameters = parameterSpace(*loaded, arguments, storage);
  if (state->pauses() && (*record)->high) {
    state->highPriority->headroom().noteLaunchOn(*(*record)->high);
    if (!state->highPriority->headroom().see(loaded->attributes(), shape))
      state->highPriority->headroom().noteLarge(steadyNow());
  }
  Result<void> launched = state->pass(**record, [&](StreamId id) {
    return state->device->launch(id, loaded->userFunction(), shape, parameters);
  });
  if (!launched)
    return Error{loaded->facts().name + ": " + launched.error().message};
  StreamRecord::Plain *plain = (*record)->plain.get();
  if (plain && !plain->isHigh) {
    plain->launched.fetch_add(1);
    state->plainLaunched.fetch_add(1);
  } else {
    state->highPriorityLaunches.fetch_add(1, std::memory_order_relaxed);
  }
  return {};
}

Result<void> Runtime::synchronize(Stream stream) {
  Result<StreamRecord *> record = state->findStream(stream);
  if (!record)
    return record.error();
  return state->synchronize(**record);
}

Result<void> Runtime::writeTrace() const {
  return state->trace ? state->trace->write() : Error{"writeTrace: there is no trace"};
}

Statistics Runtime::statistics() const {
  Statistics now;
  now.highPriorityLaunches = state->highPriorityLaunches.load();
  if (state->control)
    now.requestsToYield = state->control->requests();
  if (state->dispatcher)
    state->dispatcher->addTo(now);
  now.bestEffortLaunches += state->plainFinished.load();
  now.physicalLaunches += state->plainLaunched.load();
  return now;
}

} // namespace tally::runtime
