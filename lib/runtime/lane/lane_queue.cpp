#include "lane/lane_queue.h"

#include "base/spin.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace tally::runtime {

namespace {

/// Most unfinished operations of a lane before submit() blocks, as CUDA's own launch queue does.
constexpr std::uint64_t maxUnfinished = 4096;

/// Finished operations that submit() keeps for use.
constexpr std::size_t maxSpent = 256;

/// Whether the operation holds nothing whose end others may see.
bool mayBeFreedLate(const Operation &operation) {
  return operation.type == Operation::Type::Launch &&
         (operation.kernel || operation.mayBeFreedLate);
}

} // namespace

/// Moves the operation into a finished one, if there is one.
std::unique_ptr<Operation> LaneQueue::kept(Operation &&operation) {
  std::unique_ptr<Operation> place, surplus; // freed without the mutex
  auto takeSpent = [&](std::unique_ptr<Operation> &to) {
    to = std::move(spent.back());
    spent.pop_back();
  };
  {
    std::unique_lock lock(mutex);
    if (!spent.empty())
      takeSpent(place);
    if (spent.size() > maxSpent)
      takeSpent(surplus);
  }
  if (!place)
    return std::make_unique<Operation>(std::move(operation));
  *place = std::move(operation);
  return place;
}

Result<std::uint64_t> LaneQueue::submit(Operation &&operation) {
  LaneStream &target = *operation.stream;
  std::unique_ptr<Operation> added = kept(std::move(operation));
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return unfinished.load() < maxUnfinished || target.failed || broke; });
  if (failure)
    return *failure;
  if (target.failed)
    return target.failure;
  inbox.push_back(std::move(added));
  ++target.submitted;
  unfinished.fetch_add(1);
  isFilled.store(true);
  return ++submitted;
}

template <class Over> void LaneQueue::waitUntil(std::unique_lock<std::mutex> &lock, Over isSo) {
  if (isSo())
    return;
  lock.unlock();
  spinUntil(isSo, clock);
  lock.lock();
  changed.wait(lock, isSo);
}

void LaneQueue::waitFor(std::uint64_t number) {
  if (isOver(number))
    return;
  std::unique_lock lock(mutex);
  waitUntil(lock, [&] { return isOver(number); });
}

Result<void> LaneQueue::wait(LaneStream &target) {
  std::unique_lock lock(mutex);
  std::uint64_t until = target.submitted;
  // Wait for a failed stream as well: its work on the device still uses memory.
  waitUntil(lock, [&] { return target.finished.load() >= until || broke; });
  if (target.failed)
    return target.failure;
  // A stream whose work was done before its lane broke has not failed.
  if (failure && target.finished.load() < until)
    return *failure;
  return {};
}

void LaneQueue::take(Operations &pending) {
  if (!isFilled.load() || !isFilled.exchange(false))
    return;
  std::unique_lock lock(mutex);
  std::move(inbox.begin(), inbox.end(), std::back_inserter(pending));
  inbox.clear();
}

void LaneQueue::finish(std::unique_ptr<Operation> operation) {
  countOne(operation->stream->finished);
  countOne(over);
  if (!mayBeFreedLate(*operation))
    *operation = {};
  toSpend.push_back(std::move(operation));
  ++finishedNow;
  hasNews = true;
}

void LaneQueue::fail(LaneStream &target, const Error &error) {
  std::unique_lock lock(mutex);
  target.fail(error);
  hasNews = true;
}

void LaneQueue::fail(Operation &operation, const Error &error) {
  operation.run.failed = true;
  if (operation.launchFailed)
    operation.launchFailed(error);
  else
    fail(*operation.stream, error);
}

void LaneQueue::failAll(Operations &pending, const Error &error) {
  std::unique_lock lock(mutex);
  failure = error;
  broke = true;
  std::move(inbox.begin(), inbox.end(), std::back_inserter(pending));
  for (const std::unique_ptr<Operation> &operation : pending)
    operation->stream->fail(error);
  pending.clear();
  inbox.clear();
  finishedNow = 0;
  unfinished.store(0);
  hasNews = true;
}

void LaneQueue::publish() {
  if (!std::exchange(hasNews, false))
    return;
  unfinished.fetch_sub(std::exchange(finishedNow, 0));
  // Under the mutex, so that a waiter between its check and its sleep does not miss the wake.
  std::unique_lock lock(mutex);
  std::move(toSpend.begin(), toSpend.end(), std::back_inserter(spent));
  toSpend.clear();
  changed.notify_all();
}

} // namespace tally::runtime
