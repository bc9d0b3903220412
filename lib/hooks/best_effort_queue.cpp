#include "best_effort_queue.h"

#include "api_device.h"
#include "settings.h"
#include "spin.h"

#include <chrono>
#include <memory>
#include <thread>

namespace tally::hooks {

using namespace std::chrono_literals;

namespace {

/// Between looks of a thread that has waited long.
constexpr auto napBetweenLooks = 20us;

} // namespace

std::uint64_t BestEffortQueue::submit(StreamState &stream, runtime::Operation operation) {
  std::unique_lock lock(mutex);
  return put(stream, std::move(operation));
}

std::uint64_t BestEffortQueue::submit(StreamState &stream,
                                      std::vector<runtime::Operation> operations) {
  std::unique_lock lock(mutex);
  for (runtime::Operation &each : operations)
    put(stream, std::move(each));
  return submitted.load();
}

/// Under the mutex. The dispatcher is woken at each one, since a full queue makes the next one
/// wait.
std::uint64_t BestEffortQueue::put(StreamState &stream, runtime::Operation operation) {
  operation.stream = &order;
  operation.ordered = ApiDevice::idOf(stream);
  operation.launchFailed = [this](const Error &error) {
    warn(Warning::Fault, error.message);
    keepError(cudaErrorUnknown);
  };
  Result<std::uint64_t> number = lane.submit(std::move(operation));
  if (!number) {
    // Nothing goes through the lane any more, so everything is over.
    warn(Warning::Fault, number.error().message);
    keepError(cudaErrorUnknown);
    return submitted.load();
  }
  stream.lastTicket.store(*number);
  if (stream.kind != StreamKind::NonBlocking)
    blocking.store(*number);
  if (stream.kind == StreamKind::Legacy)
    legacy.store(*number);
  submitted.store(*number);
  dispatcher.wake();
  return *number;
}

std::uint64_t BestEffortQueue::submit(StreamState &stream, Run run) {
  runtime::Operation operation;
  operation.type = runtime::Operation::Type::Call;
  operation.call = [this, run = std::move(run)] { keepError(run()); };
  return submit(stream, std::move(operation));
}

cudaError_t BestEffortQueue::inTurn(StreamState &stream, bool launches, std::uint64_t identity,
                                    const Run &run) {
  auto reached = std::make_shared<std::atomic<bool>>(false);
  auto ended = std::make_shared<std::atomic<bool>>(false);
  runtime::Operation operation;
  operation.type = runtime::Operation::Type::Call;
  operation.call = [reached] { reached->store(true); };
  operation.callsKernel = launches;
  operation.identity = identity;
  operation.ended = ended;
  std::uint64_t ticket = submit(stream, std::move(operation));
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
    lane.waitFor(ticket);
  return status;
}

void BestEffortQueue::wait(std::uint64_t ticket, bool urgent) {
  if (isOver(ticket))
    return;
  if (urgent) {
    lane.hurry(ticket);
    dispatcher.wake();
  }
  lane.waitFor(ticket);
}

void BestEffortQueue::keepError(cudaError_t status) {
  int none = cudaSuccess;
  if (status != cudaSuccess)
    error.compare_exchange_strong(none, status);
}

cudaError_t BestEffortQueue::takeError(bool clear) {
  int kept = clear ? error.exchange(cudaSuccess) : error.load();
  // What the lane gave up comes from a device that has failed, which stays so.
  if (kept == cudaSuccess && order.failed) {
    warn(Warning::Fault, order.failure.message);
    return cudaErrorUnknown;
  }
  return static_cast<cudaError_t>(kept);
}

} // namespace tally::hooks
