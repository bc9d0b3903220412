// Creates, adopts and destroys streams.
#include "api/runtime_state.h"

#include <thread>
#include <utility>

namespace tally::runtime {

Result<void> StreamRecord::close() {
  if (isClosed.exchange(true))
    return {};
  // The stream has no work, so the waiting threads are about to return.
  while (waiting.load() != 0)
    std::this_thread::yield();
  if (high)
    highPriority->release(*high);
  if (!ofDevice)
    return {};
  if (!isAdopted)
    return device.destroyStream(*ofDevice);
  device.releaseStream(*ofDevice);
  return {};
}

Result<void> Runtime::State::openStream(StreamRecord &stream, const ClientRecord &owner) {
  bool isHigh = owner.clientClass == Class::High;
  if (!isHigh && dispatcher) {
    auto [number, generation] = owner.bestEffortNumber;
    Result<Lane *> lane = dispatcher->assignLane(number, owner.bestEffortClass);
    if (!lane)
      return lane.error();
    stream.bestEffort = std::make_unique<LaneStream>(**lane, number, nullptr, generation);
    return {};
  }
  bool low = !isHigh && options.sharing == Sharing::LowPriority;
  Result<StreamId> created = device->createStream(low ? StreamPriority::Low : StreamPriority::High);
  if (!created)
    return created.error();
  stream.ofDevice = *created;
  return passThrough(stream, isHigh);
}

Result<void> Runtime::State::passThrough(StreamRecord &stream, bool isHigh) {
  if (isHigh && highPriority) {
    Result<HighStream *> taken = highPriority->adopt(*stream.ofDevice);
    if (!taken)
      return taken.error();
    stream.high = *taken;
    return {};
  }
  stream.plain = std::make_unique<StreamRecord::Plain>();
  stream.plain->id = *stream.ofDevice;
  stream.plain->isHigh = isHigh;
  return {};
}

Result<Stream> Runtime::State::addStream(std::shared_ptr<StreamRecord> stream,
                                         ClientRecord &owner) {
  stream->owner = &owner;
  std::optional<std::uint64_t> added = streams.add(std::move(stream));
  if (!added)
    return Error{"too many streams"};
  owner.streams.fetch_add(1);
  return static_cast<Stream>(*added);
}

Result<Stream> Runtime::createStream(Client client) {
  Result<ClientRecord *> owner = state->findClient(client);
  if (!owner)
    return owner.error();
  auto stream = std::make_shared<StreamRecord>(*state->device, state->highPriority.get());
  Result<void> opened = state->openStream(*stream, **owner);
  Result<Stream> added =
      opened ? state->addStream(std::move(stream), **owner) : Result<Stream>(opened.error());
  if (!added)
    return Error{state->describe(client) + ": " + added.error().message};
  return added;
}

Result<Stream> Runtime::adoptStream(Client client, std::uint64_t nativeStream) {
  Result<ClientRecord *> owner = state->findClient(client);
  if (!owner)
    return owner.error();
  auto failed = [&](const std::string &why) {
    return Error{"adoptStream: " + state->describe(client) + why};
  };
  if ((*owner)->clientClass != Class::High)
    return failed(" is best effort, whose work waits in queues of the runtime's own; give it a "
                  "stream by createStream()");
  auto stream = std::make_shared<StreamRecord>(*state->device, state->highPriority.get());
  Result<StreamId> adopted = state->device->adoptStream(nativeStream);
  if (!adopted)
    return failed(": " + adopted.error().message);
  stream->ofDevice = *adopted;
  stream->isAdopted = true;
  Result<void> opened = state->passThrough(*stream, true);
  Result<Stream> added =
      opened ? state->addStream(std::move(stream), **owner) : Result<Stream>(opened.error());
  if (!added)
    return failed(": " + added.error().message);
  return added;
}

/// The stream stays in the table until it is idle: a thread that waits for all streams, to free
/// memory or unload a module, must also wait for this stream's work.
Result<void> Runtime::destroyStream(Stream stream) {
  auto handle = static_cast<std::uint64_t>(stream);
  std::shared_ptr<StreamRecord> record = state->streams.close(handle);
  if (!record)
    return Error{"no such stream: " + state->streams.describe(handle)};
  Result<void> done = state->synchronize(*record);
  Result<void> closed = record->close();
  state->streams.erase(handle);
  record->owner->streams.fetch_sub(1); // last: then the client may be destroyed
  return done ? closed : done;
}

} // namespace tally::runtime
