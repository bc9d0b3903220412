#include "best_effort_queue.h"

#include "api_device.h"
#include "settings.h"
#include "spin.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <memory>
#include <thread>
#include <utility>

namespace tally::hooks {

using namespace std::chrono_literals;

namespace {

/// Between looks of a thread that has waited long.
constexpr auto napBetweenLooks = 20us;

} // namespace

BestEffortQueue::BestEffortQueue(runtime::Dispatcher &dispatcher, std::size_t count)
    : dispatcher(dispatcher) {
  for (std::size_t i = 0; i < count; ++i)
    tracks.emplace_back(dispatcher.assignLane());
}

void BestEffortQueue::Track::sweep() {
  while (!unfinished.empty() && lane.isOver(unfinished.front().number))
    unfinished.pop_front();
}

std::uint64_t BestEffortQueue::Track::numberUpTo(std::uint64_t ticket) const {
  auto isBelow = [](std::uint64_t value, const Placed &each) { return value < each.ticket; };
  auto behind = std::upper_bound(unfinished.begin(), unfinished.end(), ticket, isBelow);
  return behind == unfinished.begin() ? 0 : std::prev(behind)->number;
}

/// Streams in the order in which they are first used, in turn. Under the mutex of submission.
BestEffortQueue::Track &BestEffortQueue::trackOf(StreamState &stream) {
  if (stream.track == 0)
    stream.track = nextTrack++ % tracks.size() + 1;
  return tracks[stream.track - 1];
}

std::vector<runtime::LanePosition> BestEffortQueue::inOthers(const Track &track,
                                                             std::uint64_t upTo) const {
  std::vector<runtime::LanePosition> found;
  std::unique_lock lock(looking);
  for (const Track &other : tracks)
    if (&other != &track)
      if (std::uint64_t number = other.numberUpTo(upTo); number != 0)
        found.push_back({&other.lane, number});
  return found;
}

bool BestEffortQueue::look(std::uint64_t ticket) const {
  std::unique_lock lock(looking);
  std::uint64_t known = submitted.load(); // each of these is in a list, or was seen to be over
  for (Track &track : tracks) {
    track.sweep();
    if (!track.unfinished.empty())
      known = std::min(known, track.unfinished.front().ticket - 1);
  }
  over.store(known);
  return ticket <= known;
}

std::uint64_t BestEffortQueue::submit(StreamState &stream, runtime::Operation operation,
                                      std::uint64_t behind) {
  std::unique_lock lock(mutex);
  return put(stream, std::move(operation), behind);
}

std::uint64_t BestEffortQueue::submit(StreamState &stream,
                                      std::vector<runtime::Operation> operations,
                                      std::uint64_t behind) {
  std::unique_lock lock(mutex);
  for (runtime::Operation &each : operations)
    put(stream, std::move(each), std::exchange(behind, 0)); // the others by their track's order
  return submitted.load();
}

/// Under the mutex. The dispatcher is woken at each one, since a full track makes the next one
/// wait.
std::uint64_t BestEffortQueue::put(StreamState &stream, runtime::Operation operation,
                                   std::uint64_t behind) {
  Track &track = trackOf(stream);
  if (stream.kind != StreamKind::NonBlocking)
    behind = std::max(behind, stream.kind == StreamKind::Legacy ? blocking.load() : legacy.load());
  if (tracks.size() > 1)
    operation.behind = inOthers(track, behind);
  operation.stream = &track.order;
  operation.ordered = ApiDevice::idOf(stream);
  operation.launchFailed = [this](const Error &error) {
    warn(Warning::Fault, error.message);
    keepError(cudaErrorUnknown);
  };
  Result<std::uint64_t> number = track.lane.submit(std::move(operation));
  if (!number) {
    // Nothing goes through the lane any more, so everything in it is over.
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

std::uint64_t BestEffortQueue::submit(StreamState &stream, Run run, std::uint64_t behind) {
  runtime::Operation operation;
  operation.type = runtime::Operation::Type::Call;
  operation.call = [this, run = std::move(run)] { keepError(run()); };
  return submit(stream, std::move(operation), behind);
}

cudaError_t BestEffortQueue::inTurn(StreamState &stream, bool launches, std::uint64_t identity,
                                    const Run &run, std::uint64_t behind) {
  auto reached = std::make_shared<std::atomic<bool>>(false);
  auto ended = std::make_shared<std::atomic<bool>>(false);
  runtime::Operation operation;
  operation.type = runtime::Operation::Type::Call;
  operation.call = [reached] { reached->store(true); };
  operation.callsKernel = launches;
  operation.identity = identity;
  operation.ended = ended;
  std::uint64_t ticket = submit(stream, std::move(operation), behind);
  // An operation that is over without having been reached was given up with its lane.
  auto isItsTurn = [&] { return reached->load() || isOver(ticket); };
  runtime::spinUntil(isItsTurn, runtime::SteadyClock());
  while (!isItsTurn())
    std::this_thread::sleep_for(napBetweenLooks);
  cudaError_t status = run();
  ended->store(true);
  dispatcher.wake();
  // A call that failed has put nothing on the stream, which is not busy with it.
  if (status != cudaSuccess)
    wait(ticket, false);
  return status;
}

void BestEffortQueue::wait(std::uint64_t ticket, bool urgent) {
  if (isOver(ticket))
    return;
  std::vector<std::uint64_t> numbers;
  {
    std::unique_lock lock(looking);
    for (const Track &track : tracks)
      numbers.push_back(track.numberUpTo(ticket));
  }
  if (urgent) {
    for (std::size_t i = 0; i < numbers.size(); ++i)
      tracks[i].lane.hurry(numbers[i]);
    dispatcher.wake();
  }
  for (std::size_t i = 0; i < numbers.size(); ++i)
    tracks[i].lane.waitFor(numbers[i]);
}

void BestEffortQueue::keepError(cudaError_t status) {
  int none = cudaSuccess;
  if (status != cudaSuccess)
    error.compare_exchange_strong(none, status);
}

cudaError_t BestEffortQueue::takeError(bool clear) {
  int kept = clear ? error.exchange(cudaSuccess) : error.load();
  // What the lane gave up comes from a device that has failed, which stays so.
  for (const Track &track : tracks)
    if (kept == cudaSuccess && track.order.failed) {
      warn(Warning::Fault, track.order.failure.message);
      return cudaErrorUnknown;
    }
  return static_cast<cudaError_t>(kept);
}

} // namespace tally::hooks
