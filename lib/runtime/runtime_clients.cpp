// Clients, their streams and their requests.
#include "runtime_state.h"

#include <utility>

namespace tally::runtime {

namespace {

/// The client as errors call it.
std::string describe(Client client, const ClientRecord &record) {
  return "client " + (record.name.empty() ? std::to_string(static_cast<std::uint64_t>(client))
                                          : "'" + record.name + "'");
}

const std::string &requestName(const ClientRecord &record) {
  static const std::string withoutName = "request";
  return record.name.empty() ? withoutName : record.name;
}

} // namespace

Result<ClientRecord *> Runtime::State::findClient(Client client) const {
  ClientRecord *record = clients.find(static_cast<std::uint64_t>(client));
  if (!record)
    return Error{"no such client: " + std::to_string(static_cast<std::uint64_t>(client))};
  return record;
}

/// The client for `call`, which only a high-priority one may make.
Result<ClientRecord *> Runtime::State::findHighClient(Client client, const char *call) const {
  Result<ClientRecord *> record = findClient(client);
  if (record && (*record)->clientClass != Class::High)
    return Error{std::string(call) + ": " + describe(client, **record) +
                 " is best effort; requests are for high-priority clients"};
  return record;
}

Result<Client> Runtime::createClient(Class clientClass, std::string name) {
  return addClient(clientClass, 1, std::move(name));
}

Result<Client> Runtime::createBestEffortClient(std::uint32_t bestEffortClass, std::string name) {
  if (bestEffortClass < 1 || bestEffortClass > lowestBestEffortClass)
    return Error{"createBestEffortClient: the class is " + std::to_string(bestEffortClass) +
                 "; allowed are 1 to " + std::to_string(lowestBestEffortClass)};
  if (state->options.sharing != Sharing::Tally)
    return Error{"createBestEffortClient: classes are for sharing by tally only"};
  return addClient(Class::BestEffort, bestEffortClass, std::move(name));
}

Result<Client> Runtime::addClient(Class clientClass, std::uint32_t bestEffortClass,
                                  std::string name) {
  if (clientClass == Class::High && state->options.arena && state->options.arena->bestEffortOnly)
    return Error{"createClient: the process is in the arena for best effort only"};
  auto record = std::make_unique<ClientRecord>();
  record->clientClass = clientClass;
  record->bestEffortClass = bestEffortClass;
  record->name = std::move(name);
  if (clientClass == Class::BestEffort)
    record->bestEffortNumber = state->bestEffortClients.fetch_add(1);
  if (state->trace)
    record->traceName = state->trace->nameOf(requestName(*record));
  if (state->arena)
    if (Result<void> joined = state->arena->join(clientClass, record->name); !joined)
      return joined.error();
  std::optional<std::uint64_t> added = state->clients.add(std::move(record));
  if (!added)
    return Error{"too many clients"};
  return static_cast<Client>(*added);
}

Result<std::unique_ptr<StreamRecord>> Runtime::State::makeStream(const ClientRecord &owner) {
  Class streamClass = owner.clientClass;
  auto record = std::make_unique<StreamRecord>();
  bool plain = options.sharing != Sharing::Tally;
  if (streamClass == Class::BestEffort && !plain) {
    std::uint32_t number = owner.bestEffortNumber;
    Result<Lane *> lane = dispatcher->assignLane(number, owner.bestEffortClass);
    if (!lane)
      return lane.error();
    record->bestEffort = std::make_unique<LaneStream>(**lane, number);
  } else if (!plain) {
    Result<StreamId> created = device->createStream(StreamPriority::High);
    if (!created)
      return created.error();
    Result<HighStream *> adopted = highPriority->adopt(*created);
    if (!adopted)
      return adopted.error();
    record->high = *adopted;
  } else {
    bool low = streamClass == Class::BestEffort && options.sharing == Sharing::LowPriority;
    Result<StreamId> created =
        device->createStream(low ? StreamPriority::Low : StreamPriority::High);
    if (!created)
      return created.error();
    record->plain = std::make_unique<StreamRecord::Plain>();
    record->plain->id = *created;
    record->plain->isHigh = streamClass == Class::High;
  }
  return record;
}

Result<Stream> Runtime::createStream(Client client) {
  Result<ClientRecord *> owner = state->findClient(client);
  if (!owner)
    return owner.error();
  Result<std::unique_ptr<StreamRecord>> record = state->makeStream(**owner);
  if (!record)
    return Error{describe(client, **owner) + ": " + record.error().message};
  std::optional<std::uint64_t> added = state->streams.add(std::move(*record));
  if (!added)
    return Error{describe(client, **owner) + ": too many streams"};
  return static_cast<Stream>(*added);
}

Result<void> Runtime::beginRequest(Client client) {
  Result<ClientRecord *> record = state->findHighClient(client, "beginRequest");
  if (!record)
    return record.error();
  Nanoseconds now = state->timesRequests() ? SteadyClock{}() : Nanoseconds(0);
  if (state->highPriority)
    if (Result<void> begun = state->highPriority->beginRequest(); !begun)
      return begun;
  if (state->timesRequests())
    (*record)->requestTimes.begin(
        now, state->hasRanges ? beginRange(RangeOf::Request, requestName(**record)) : 0);
  // Last here and first in endRequest(): what clients count is never more than what is open.
  (*record)->openRequests.fetch_add(1);
  return {};
}

Result<void> Runtime::endRequest(Client client) {
  Result<ClientRecord *> record = state->findHighClient(client, "endRequest");
  if (!record)
    return record.error();
  std::atomic<std::uint32_t> &openRequests = (*record)->openRequests;
  std::uint32_t open = openRequests.load();
  do
    if (open == 0)
      return Error{"endRequest: " + describe(client, **record) + " has no open request"};
  while (!openRequests.compare_exchange_weak(open, open - 1));
  if (!state->highPriority)
    return {};
  if (state->timesRequests())
    state->noteRequest(**record, SteadyClock{}());
  Result<bool> last = state->highPriority->endRequest();
  if (!last)
    return last.error();
  if (*last)
    state->dispatcher->resume();
  return {};
}

void Runtime::State::noteRequest(ClientRecord &client, Nanoseconds now) {
  std::optional<RequestTimes::Ended> ended = client.requestTimes.end(now);
  if (!ended)
    return;
  if (hasRanges)
    endRange(ended->range);
  highPriority->noteRequest(ended->took);
  if (!trace)
    return;
  TraceEvent event;
  event.type = TraceEvent::Type::Request;
  event.name = client.traceName;
  event.start = now - ended->took;
  event.duration = ended->took;
  trace->add(event);
}

} // namespace tally::runtime
