#include "best_effort_queue.h"

#include <chrono>
#include <future>
#include <memory>

namespace tally::hooks {

using namespace std::chrono_literals;

namespace {

/// Operations that may be queued before submit() waits, as launches do in CUDA's own queues.
constexpr std::size_t maxOperations = 4096;

/// How long a thread polls before it sleeps. A wake-up from sleep costs about 50 us, which a loop
/// of short kernels would pay each time; where cores are scarce they belong to others.
std::chrono::nanoseconds spinBeforeSleep() {
  static const std::chrono::nanoseconds time =
      std::thread::hardware_concurrency() >= 8 ? 1ms : 20us;
  return time;
}

template <class Condition> bool spinUntil(Condition condition) {
  auto deadline = std::chrono::steady_clock::now() + spinBeforeSleep();
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= deadline)
      return false;
    std::this_thread::yield();
  }
  return true;
}

} // namespace

BestEffortQueue::BestEffortQueue(std::function<void()> prepare)
    : prepare(std::move(prepare)), thread([this] { loop(); }) {}

void BestEffortQueue::stop() {
  {
    std::unique_lock lock(mutex);
    stopping = true;
    changed.notify_all();
  }
  if (thread.joinable())
    thread.join();
}

/// Under the mutex.
std::uint64_t BestEffortQueue::assign(StreamState &stream) {
  std::uint64_t ticket = submitted.load() + 1;
  stream.lastTicket.store(ticket);
  if (stream.kind != StreamKind::NonBlocking)
    blocking.store(ticket);
  if (stream.kind == StreamKind::Legacy)
    legacy.store(ticket);
  submitted.store(ticket);
  return ticket;
}

std::uint64_t BestEffortQueue::submit(StreamState &stream, Run run) {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return operations.size() < maxOperations; });
  std::uint64_t ticket = assign(stream);
  operations.push_back({ticket, std::move(run)});
  changed.notify_all();
  return ticket;
}

cudaError_t BestEffortQueue::inTurn(StreamState &stream, const Run &run) {
  std::unique_lock lock(mutex);
  if (operations.empty() && !busy) {
    busy = true;
    std::uint64_t ticket = assign(stream);
    lock.unlock();
    cudaError_t status = run();
    lock.lock();
    finish(ticket, cudaSuccess);
    return status;
  }
  lock.unlock();
  // The queue's thread comes to it, and waits while the calling thread has its turn. Either may be
  // still in a call on what they share when the other has gone on.
  struct Turn {
    std::promise<void> reached, done;
  };
  auto turn = std::make_shared<Turn>();
  submit(stream, [turn] {
    turn->reached.set_value();
    turn->done.get_future().wait();
    return cudaSuccess;
  });
  turn->reached.get_future().wait();
  cudaError_t status = run();
  turn->done.set_value();
  return status;
}

void BestEffortQueue::wait(std::uint64_t ticket, bool urgent) {
  if (isOver(ticket))
    return;
  if (urgent) {
    std::uint64_t known = urgentUntil.load();
    while (known < ticket && !urgentUntil.compare_exchange_weak(known, ticket)) {
    }
  }
  if (spinUntil([&] { return isOver(ticket); }))
    return;
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return isOver(ticket); });
}

cudaError_t BestEffortQueue::takeError(bool clear) {
  return static_cast<cudaError_t>(clear ? error.exchange(cudaSuccess) : error.load());
}

/// Under the mutex.
void BestEffortQueue::finish(std::uint64_t ticket, cudaError_t status) {
  int none = cudaSuccess;
  if (status != cudaSuccess)
    error.compare_exchange_strong(none, status);
  busy = false;
  completed.store(ticket);
  changed.notify_all();
}

void BestEffortQueue::loop() {
  prepare();
  std::unique_lock lock(mutex);
  while (true) {
    auto hasWork = [&] { return (!operations.empty() && !busy) || stopping; };
    if (!hasWork()) {
      std::uint64_t before = submitted.load();
      lock.unlock();
      spinUntil([&] { return submitted.load() != before; });
      lock.lock();
      changed.wait(lock, hasWork);
    }
    if (stopping)
      return;
    Operation operation = std::move(operations.front());
    operations.pop_front();
    busy = true;
    lock.unlock();
    cudaError_t status = operation.run();
    operation.run = nullptr;
    lock.lock();
    finish(operation.ticket, status);
  }
}

} // namespace tally::hooks
