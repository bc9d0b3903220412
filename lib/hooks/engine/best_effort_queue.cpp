#include "engine/best_effort_queue.h"

#include "base/spin.h"
#include "state/settings.h"
#include "work/api_device.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <memory>
#include <thread>
#include <utility>

namespace tally::hooks {

using namespace std::chrono_literals;

namespace {

/// Pause between two checks of a thread that has waited long.
constexpr auto napBetweenLooks = 20us;
/// Many operations are put in batches of this many: the size of a lane's batch.
constexpr std::size_t mostAtOnce = 32;

} // namespace

void BestEffortQueue::Track::sweep() {
  while (!unfinished.empty() && lane.isOver(unfinished.front().number))
    unfinished.pop_front();
}

std::uint64_t BestEffortQueue::Track::numberUpTo(std::uint64_t ticket) const {
  auto isBelow = [](std::uint64_t value, const Placed &each) { return value < each.ticket; };
  auto behind = std::upper_bound(unfinished.begin(), unfinished.end(), ticket, isBelow);
  return behind == unfinished.begin() ? 0 : std::prev(behind)->number;
}

/// Assigns streams to tracks round robin, in the order of their first use. Under the mutex of
/// submission.
BestEffortQueue::Track &BestEffortQueue::trackOf(StreamState &stream) {
  std::uint32_t now = stream.bestEffortClass;
  if (stream.place.queue != this || stream.place.bestEffortClass != now) {
    Group &group = groupOf(now);
    stream.place = {this, now, group.first + group.next++ % group.count};
  }
  return tracks[stream.place.track];
}

/// Where a class's lanes cannot be opened, it shares the lanes of another class.
BestEffortQueue::Group &BestEffortQueue::groupOf(std::uint32_t bestEffortClass) {
  Group &group = groups[bestEffortClass];
  if (group.count != 0)
    return group;
  Lanes lanes = openLanes(bestEffortClass);
  if (lanes.empty())
    return std::ranges::find_if(groups, [](const auto &each) { return each.second.count != 0; })
        ->second;
  std::unique_lock lock(looking);
  group.first = tracks.size();
  group.count = lanes.size();
  for (const std::unique_ptr<runtime::Lane> &each : lanes)
    tracks.emplace_back(*each, anyFailed);
  return group;
}

/// `last`: the last ticket of the stream, which may have been of another class then.
std::vector<runtime::LanePosition> BestEffortQueue::inOthers(const Track &track, Behind behind,
                                                             std::uint64_t last) const {
  std::vector<runtime::LanePosition> found;
  for (std::uint64_t each : {behind.one, last})
    if (each > over.load())
      if (runtime::LanePosition at = find(each); at.lane && at.lane != &track.lane)
        found.push_back(at);
  std::unique_lock lock(looking);
  for (const Track &other : tracks)
    if (&other != &track)
      if (std::uint64_t number = other.numberUpTo(behind.upTo); number != 0)
        found.push_back({&other.lane, number});
  return found;
}

/// The position of the operation until it is over; without a lane once it is over.
runtime::LanePosition BestEffortQueue::find(std::uint64_t ticket) const {
  std::unique_lock lock(looking);
  sweep();
  for (const Track &track : tracks) {
    auto isBelow = [](const Placed &each, std::uint64_t value) { return each.ticket < value; };
    auto at = std::lower_bound(track.unfinished.begin(), track.unfinished.end(), ticket, isBelow);
    if (at != track.unfinished.end() && at->ticket == ticket)
      return {&track.lane, at->number};
  }
  return {};
}

bool BestEffortQueue::look(std::uint64_t ticket) const {
  std::unique_lock lock(looking);
  sweep();
  return ticket <= over.load();
}

/// Under `looking`.
void BestEffortQueue::sweep() const {
  std::uint64_t known = submitted.load(); // each of these is in a list or was seen to be over
  for (Track &track : tracks) {
    track.sweep();
    if (!track.unfinished.empty())
      known = std::min(known, track.unfinished.front().ticket - 1);
  }
  over.store(known);
}

std::uint64_t BestEffortQueue::submit(StreamState &stream, runtime::Operation &&operation,
                                      Behind behind) {
  std::unique_lock lock(mutex);
  return put(stream, std::move(operation), behind);
}

std::uint64_t BestEffortQueue::submit(StreamState &stream, std::size_t count,
                                      const std::function<runtime::Operation(std::size_t)> &make,
                                      Behind behind) {
  std::unique_lock lock(mutex);
  std::vector<runtime::Operation> made;
  made.reserve(std::min(count, mostAtOnce));
  for (std::size_t i = 0; i < count;) {
    for (made.clear(); i < count && made.size() < mostAtOnce; ++i)
      made.push_back(make(i));
    for (runtime::Operation &each : made)
      put(stream, std::move(each), std::exchange(behind, {})); // the track orders the others
  }
  return submitted.load();
}

/// Under the mutex. The dispatcher is woken at each operation, since a full track makes the next
/// one wait.
std::uint64_t BestEffortQueue::put(StreamState &stream, runtime::Operation &&operation,
                                   Behind behind) {
  Track &track = trackOf(stream);
  if (stream.kind != StreamKind::NonBlocking)
    behind.upTo =
        std::max(behind.upTo, stream.kind == StreamKind::Legacy ? blocking.load() : legacy.load());
  if (tracks.size() > 1)
    operation.behind = inOthers(track, behind, stream.lastTicket.load());
  operation.stream = &track.order;
  // Where no operation is put, the program's own stream does not advance.
  if (operation.type != runtime::Operation::Type::Put || operation.put)
    operation.ordered = idOf(stream);
  operation.launchFailed = [this](const Error &error) {
    warn(Warning::Fault, error.message);
    keepError(cudaErrorUnknown);
  };
  Result<std::uint64_t> number = track.lane.submit(std::move(operation));
  if (!number) {
    // No operation goes through the lane any more, so all of its operations are over.
    warn(Warning::Fault, number.error().message);
    keepError(cudaErrorUnknown);
    return submitted.load();
  }
  std::uint64_t ticket = submitted.load() + 1;
  {
    std::unique_lock lock(looking);
    track.sweep();
    track.unfinished.push_back({ticket, *number});
  }
  stream.lastTicket.store(ticket);
  if (stream.kind != StreamKind::NonBlocking)
    blocking.store(ticket);
  if (stream.kind == StreamKind::Legacy)
    legacy.store(ticket);
  submitted.store(ticket);
  dispatcher.wake();
  return ticket;
}

std::uint64_t BestEffortQueue::submit(StreamState &stream, Run run, Behind behind) {
  runtime::Operation operation;
  operation.type = runtime::Operation::Type::Call;
  operation.call = [this, run = std::move(run)] { keepError(run()); };
  return submit(stream, std::move(operation), behind);
}

cudaError_t BestEffortQueue::inTurn(StreamState &stream, bool launches, std::uint64_t identity,
                                    const Run &run, Behind behind) {
  auto reached = std::make_shared<std::atomic<bool>>(false);
  auto ended = std::make_shared<std::atomic<bool>>(false);
  runtime::Operation operation;
  operation.type = runtime::Operation::Type::Call;
  operation.call = [reached] { reached->store(true); };
  operation.callsKernel = launches;
  operation.identity = identity;
  operation.ended = ended;
  std::uint64_t ticket = submit(stream, std::move(operation), behind);
  // An operation that is over but never ran was dropped with its lane.
  auto isItsTurn = [&] { return reached->load() || isOver(ticket); };
  runtime::spinUntil(isItsTurn, runtime::SteadyClock());
  while (!isItsTurn())
    std::this_thread::sleep_for(napBetweenLooks);
  cudaError_t status = run();
  ended->store(true);
  dispatcher.wake();
  // A failed call has put nothing on the stream, so the stream is not busy with it.
  if (status != cudaSuccess)
    wait(ticket, false);
  return status;
}

void BestEffortQueue::wait(std::uint64_t ticket, bool urgent) {
  if (ticket > over.load())
    if (runtime::LanePosition at = find(ticket); at.lane)
      wait({at}, urgent);
}

void BestEffortQueue::waitUpTo(std::uint64_t ticket, bool urgent) {
  if (isOverUpTo(ticket))
    return;
  std::vector<runtime::LanePosition> positions;
  {
    std::unique_lock lock(looking);
    for (const Track &track : tracks)
      positions.push_back({&track.lane, track.numberUpTo(ticket)});
  }
  wait(positions, urgent);
}

/// The lanes make operations of other lanes urgent too where these positions wait for them.
void BestEffortQueue::wait(const std::vector<runtime::LanePosition> &positions, bool urgent) {
  if (urgent) {
    for (const runtime::LanePosition &each : positions)
      each.lane->inheritHighPriority(each.number);
    dispatcher.wake();
  }
  for (const runtime::LanePosition &each : positions)
    each.lane->waitFor(each.number);
}

void BestEffortQueue::keepError(cudaError_t status) {
  int none = cudaSuccess;
  if (status != cudaSuccess)
    error.compare_exchange_strong(none, status);
}

cudaError_t BestEffortQueue::takeSlowly(bool clear) {
  int kept = clear ? error.exchange(cudaSuccess) : error.load();
  // A lane drops operations when its device has failed; the failure is permanent.
  std::unique_lock lock(looking);
  for (const Track &track : tracks)
    if (kept == cudaSuccess && track.order.failed) {
      warn(Warning::Fault, track.order.failure.message);
      return cudaErrorUnknown;
    }
  return static_cast<cudaError_t>(kept);
}

} // namespace tally::hooks
