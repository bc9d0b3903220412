// Clients and their requests.
#include "api/runtime_state.h"

#include <algorithm>
#include <utility>

namespace tally::runtime {

namespace {

const std::string &requestName(const ClientRecord &record) {
  static const std::string withoutName = "request";
  return record.name.empty() ? withoutName : record.name;
}

} // namespace

ClientNumbers::Taken ClientNumbers::take() {
  std::unique_lock lock(mutex);
  auto free = std::ranges::find_if(numbers, [](const Number &each) { return !each.isTaken; });
  if (free == numbers.end())
    free = numbers.emplace(numbers.end());
  free->isTaken = true;
  return {static_cast<std::uint32_t>(free - numbers.begin()), free->generation++};
}

void ClientNumbers::giveBack(std::uint32_t number) {
  std::unique_lock lock(mutex);
  numbers[number].isTaken = false;
}

/// The text that names the client in errors.
std::string Runtime::State::describe(Client client) const {
  auto handle = static_cast<std::uint64_t>(client);
  const ClientRecord *record = clients.find(handle);
  return "client " +
         (record && !record->name.empty() ? "'" + record->name + "'" : clients.describe(handle));
}

Result<ClientRecord *> Runtime::State::findClient(Client client) const {
  auto handle = static_cast<std::uint64_t>(client);
  ClientRecord *record = clients.find(handle);
  if (!record)
    return Error{"no such client: " + clients.describe(handle)};
  return record;
}

/// The client's record for `call`, which only a high-priority client may make.
Result<ClientRecord *> Runtime::State::findHighClient(Client client, const char *call) const {
  Result<ClientRecord *> record = findClient(client);
  if (record && (*record)->clientClass != Class::High)
    return Error{std::string(call) + ": " + describe(client) +
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
  auto record = std::make_shared<ClientRecord>();
  record->clientClass = clientClass;
  record->bestEffortClass = bestEffortClass;
  record->name = std::move(name);
  if (state->trace)
    record->traceName = state->trace->nameOf(requestName(*record));
  if (state->arena)
    if (Result<void> joined = state->arena->join(clientClass, record->name); !joined)
      return joined.error();
  if (clientClass == Class::BestEffort) {
    record->bestEffortNumber = state->clientNumbers.take();
    if (state->dispatcher)
      state->dispatcher->noteClient(record->bestEffortNumber.number,
                                    record->bestEffortNumber.generation);
  }
  std::optional<std::uint64_t> added = state->clients.add(record);
  if (added)
    return static_cast<Client>(*added);
  if (clientClass == Class::BestEffort)
    state->clientNumbers.giveBack(record->bestEffortNumber.number);
  return Error{"too many clients"};
}

Result<void> Runtime::destroyClient(Client client) {
  Result<ClientRecord *> record = state->findClient(client);
  if (!record)
    return record.error();
  auto refuse = [&](std::uint32_t count, const char *what, const char *first) {
    return Error{"destroyClient: " + state->describe(client) + " has " + std::to_string(count) +
                 " " + what + (count == 1 ? "; " : "s; ") + first};
  };
  if (std::uint32_t streams = (*record)->streams.load(); streams != 0)
    return refuse(streams, "stream", "destroy its streams first");
  if (std::uint32_t open = (*record)->openRequests.load(); open != 0)
    return refuse(open, "open request", "end its requests first");
  auto handle = static_cast<std::uint64_t>(client);
  std::shared_ptr<ClientRecord> ended = state->clients.close(handle);
  if (!ended)
    return Error{"no such client: " + state->clients.describe(handle)};
  state->clients.erase(handle);
  if (ended->clientClass == Class::BestEffort)
    state->clientNumbers.giveBack(ended->bestEffortNumber.number);
  return {};
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
  // Last here and first in endRequest(), so that clients never count more requests than are open.
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
      return Error{"endRequest: " + state->describe(client) + " has no open request"};
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
