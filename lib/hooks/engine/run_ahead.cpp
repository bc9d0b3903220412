#include "engine/run_ahead.h"

#include "base/spin.h"
#include "state/own_thread.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace tally::hooks {

using namespace std::chrono_literals;
using runtime::Nanoseconds;

namespace {

/// Assumed duration of an unknown operation.
constexpr double unknownNs = 1e6;
constexpr double leastNs = 500;
/// Largest delay between the event before an operation that is measured alone and the operation
/// itself, if the device had nothing else to do.
constexpr double mostLaunchNs = 10e3;
/// A stream that got no operation for this long may have run dry; the time that it then waited for
/// its thread is no duration.
constexpr Nanoseconds longGap = 500us, longDryGap = 1ms;
constexpr Nanoseconds sweepInterval = 1ms;
/// Waiting threads poll for `spinFor`, then sleep `nap` between checks.
constexpr Nanoseconds spinFor = 50us, nap = 50us;
/// A thread waits for at most this multiple of the expected time, plus `mostBehindExpected`.
constexpr double mostTimesExpected = 4;
constexpr Nanoseconds mostBehindExpected = 100ms;
/// An event on an idle stream is over long before this time.
constexpr Nanoseconds mostForOwnEvent = 5ms;
/// A thread waits this long for the queue to empty, and does not wait again for this multiple of
/// the time.
constexpr Nanoseconds longestSettling = 20ms;
constexpr int timesSettling = 10;
/// An operation longer than the bound goes when at most the bound divided by this is ahead of it.
constexpr double partOfLonger = 25;
/// For times that are only upper limits: an estimate becomes doubtful where such a time is above
/// this multiple of it, as often as Doubts allows.
constexpr double mostUndoubted = 1.1;
/// passAgain() passes at most this many operations between two readings of the clock.
constexpr int mostPassed = 7;
constexpr std::size_t mostEstimates = 4096, mostKinds = 2048, mostEvents = 64;

} // namespace

std::uint64_t StreamAhead::keyOf(const AheadWork &work) {
  std::uint64_t mixed = reinterpret_cast<std::uint64_t>(work.identity) * 0x9e3779b97f4a7c15;
  mixed = (mixed ^ (mixed >> 29)) + work.size * 0xbf58476d1ce4e5b9;
  return mixed ^ (mixed >> 32);
}

StreamAhead::Estimate &StreamAhead::remember(const AheadWork &work, std::uint64_t key) {
  Estimate &found = look(work, key); // may forget all
  Recent &known = recentOf(key).forNew();
  known = {key, &found};
  found.recent = &known;
  return found;
}

StreamAhead::Estimate &StreamAhead::look(const AheadWork &work, std::uint64_t key) {
  auto found = estimates.find(key);
  if (found != estimates.end())
    return found->second;
  if (estimates.size() >= mostEstimates) {
    for (Group &each : closed)
      each.work.clear();
    open.work.clear();
    recent.fill({});
    estimates.clear();
    if (kinds.size() >= mostKinds)
      kinds.clear();
  }
  WorkKind &kind = kinds[work.identity];
  Estimate &made = estimates[key];
  made.kind = &kind;
  made.size = static_cast<double>(std::max<std::uint64_t>(work.size, 1));
  made.isKnown = !kind.isUnknown();
  made.isUnmeasured = !kind.isJudgeOf(made.size);
  made.ns = made.isKnown ? std::max(kind.expected(made.size), leastNs) : unknownNs;
  return made;
}

/// Returns nullptr where no event can be recorded.
StreamAhead::Event StreamAhead::record(StreamState &stream) {
  cudaEvent_t event = nullptr;
  auto take = [&] {
    if (!spare.empty()) {
      event = spare.back();
      spare.pop_back();
      return cudaSuccess;
    }
    return api.cudaEventCreateWithFlags(&event, cudaEventDefault);
  };
  if (ask(take) != Said::Yes)
    return nullptr;
  Event made(event, [this](cudaEvent_t used) {
    if (spare.size() < mostEvents)
      spare.push_back(used);
    else
      api.cudaEventDestroy(used);
  });
  auto put = [&] { return api.cudaEventRecord(event, stream.handle); };
  return ask(put) == Said::Yes ? made : nullptr;
}

/// A query that answers "no" leaves an error, which the program would find, and may make a capture
/// invalid.
template <class Question> StreamAhead::Said StreamAhead::ask(const Question &question) {
  if (api.cudaPeekAtLastError() != cudaSuccess)
    return Said::Unknown;
  cudaError_t status = cudaErrorNotReady;
  if (!captures.ask([&] { status = question(); }))
    return Said::No;
  if (status == cudaSuccess)
    return Said::Yes;
  api.cudaGetLastError();
  return status == cudaErrorNotReady ? Said::No : Said::Unknown;
}

/// The time of one operation counts from an event that is not over yet, and is learnt as soon as
/// possible. For other groups an event that may be over serves as well, and costs no query, where
/// it is not from long before.
void StreamAhead::begin(StreamState &stream, Nanoseconds now, bool isMeasuredAlone) {
  bool isSwept = isMeasuredAlone || (!closed.empty() && closed.back().operations == 1);
  if (isSwept)
    sweep(now);
  open.begun = now;
  open.mostAgain =
      std::min(mostOfGroup(), static_cast<double>(bound.asked().count()) - closedExpected);
  std::uint64_t others = putByOthers();
  bool mayBeOver = closed.empty();
  bool isNewEvent = !last.event || others != last.others ||
                    (mayBeOver && (isMeasuredAlone || now - last.at > longGap));
  open.from = isNewEvent ? End{record(stream), now, others} : last;
  open.isExact = isNewEvent || (isSwept && !mayBeOver);
  open.isReached = mayBeOver && !isNewEvent;
}

std::uint64_t StreamAhead::putByOthers() const {
  return owner.putSoFar() - putBefore - open.operations;
}

void StreamAhead::close(StreamState &stream) {
  std::uint64_t others = putByOthers();
  open.isShared = others != open.from.others;
  Nanoseconds now = runtime::SteadyClock{}();
  open.put = now - open.from.at;
  sweep(now);
  // The event before the group is behind all closed groups.
  Event from = open.from.event;
  isDry = from && closed.empty() &&
          (open.isReached || ask([&] { return api.cudaEventQuery(from.get()); }) != Said::No);
  open.isGapless = from && !isDry;
  if (isDry)
    noteDry(now);
  open.to = record(stream);
  last = {open.to, now, others};
  Group ended = drop();
  if (from && ended.to) {
    if (closed.empty())
      firstSince = runtime::SteadyClock{}();
    closedExpected += ended.expected;
    closed.push_back(std::move(ended));
  }
}

StreamAhead::Group StreamAhead::drop() {
  if (open.operations != 0)
    activity.noteAhead(open.operations);
  putBefore += open.operations;
  return std::exchange(open, {});
}

/// Removes the groups that are over.
void StreamAhead::sweep(Nanoseconds now) {
  lastAt.sweep = now;
  while (!closed.empty()) {
    Group &first = closed.front();
    Said over = ask([&] { return api.cudaEventQuery(first.to.get()); });
    if (over == Said::No)
      return;
    open.isReached = open.isReached || first.to == open.from.event;
    if (over == Said::Yes)
      learn(first);
    if (trace) {
      runtime::TraceEvent event;
      event.type = runtime::TraceEvent::Type::Ahead;
      event.lane = number;
      event.start = firstSince;
      event.duration = now - firstSince;
      event.value = first.operations;
      trace->add(event);
    }
    closedExpected -= first.expected;
    closed.pop_front();
    firstSince = now;
  }
  closedExpected = 0;
  isLetGo = false;
}

/// Adopts a longer time at once, a shorter one by halves. Estimates may have changed since the
/// group was begun: the time is compared with the time expected at the begin of the group.
void StreamAhead::learn(const Group &group) {
  float ms = 0;
  auto elapsed = [&] {
    return api.cudaEventElapsedTime(&ms, group.from.event.get(), group.to.get());
  };
  if (group.work.empty() || ask(elapsed) != Said::Yes)
    return;
  double took = static_cast<double>(ms) * 1e6, factor = took / group.expected;
  bool isOne = group.operations == 1 && (group.isExact || group.isGapless);
  if (factor > 1 && (group.isShared || !(isOne || group.isGapless))) {
    doubt(group, took);
    return;
  }
  ++groupsLearnt;
  for (const Work &each : group.work) {
    Estimate &estimate = *each.estimate;
    bool wasDoubtful = isOne && std::exchange(estimate.isDoubtful, false);
    std::uint64_t before = std::exchange(estimate.learntFrom, groupsLearnt);
    if (before == groupsLearnt)
      continue;
    double found = std::max(each.ns * factor, leastNs);
    if (isOne && !group.isGapless && estimate.isKnown && found > estimate.ns)
      found = std::max(estimate.ns, found - mostLaunchNs);
    if (wasDoubtful && found > estimate.ns * mostUndoubted)
      doubts.wereRight();
    bool isMeasured = isOne || found > estimate.ns;
    estimate.ns = isMeasured ? found : (estimate.ns + found) / 2;
    estimate.isKnown = estimate.isNews = true;
    noteRecent(estimate, true);
    estimate.kind->measured(estimate.size, estimate.ns, isOne && before == 0);
  }
}

/// The operations' durations may have grown, or the group's time holds more than the operations:
/// the device may have waited for the thread as long as the thread took to put them.
void StreamAhead::doubt(const Group &group, double ns) {
  double least = group.isGapless ? ns : ns - static_cast<double>(group.put.count());
  if (least <= group.expected * mostUndoubted || !doubts.begin(runtime::SteadyClock{}()))
    return;
  for (const Work &each : group.work) {
    each.estimate->isDoubtful = true;
    noteRecent(*each.estimate, false);
  }
}

/// Where the stream has run dry since the last operation, it waited for its thread. While the
/// device keeps up with the thread, that is asked more seldom.
void StreamAhead::dropIdle(StreamState &stream, Nanoseconds now) {
  if ((closed.empty() && open.operations == 0) ||
      now - lastAt.put <= (isDry ? longDryGap : longGap) * (1 + passed))
    return;
  if (ask([&] { return api.cudaStreamQuery(stream.handle); }) != Said::Yes)
    return;
  noteDry(now);
  sweep(now);
  drop();
}

/// In ns. A group that takes longer than expected counts with the time that it has taken, except
/// groups that may have to wait for others.
double StreamAhead::ahead(Nanoseconds now) const {
  double sum = closedExpected + open.expected;
  if (closed.empty())
    return sum;
  double first = closed.front().expected;
  auto had = static_cast<double>((now - firstSince).count());
  if (had <= first)
    return sum - had;
  return closed.front().isShared ? sum : sum - first + had;
}

/// Whether an operation would be too far ahead. An operation longer than the bound goes when hardly
/// anything is ahead of it.
bool StreamAhead::isTooFar(double ns, Nanoseconds now) const {
  double before = ahead(now);
  return !isLetGo && before + ns > static_cast<double>(bound.now().count()) &&
         before > static_cast<double>(bound.asked().count()) / partOfLonger;
}

/// Returns when the operation is not too far ahead, a capture begins, or no group is over for far
/// longer than expected; the stream is then not bounded. Returns whether the calling thread has
/// waited.
bool StreamAhead::waitUntilAdmissible(StreamState &stream, double ns) {
  Nanoseconds now = runtime::SteadyClock{}(), began = now, since = now;
  if (open.operations != 0)
    close(stream);
  else
    sweep(now);
  // Waits for space for a whole group: else there would be an event behind each operation from now
  // on.
  double least = std::max(ns, mostOfGroup());
  while (!closed.empty() && !captures.any() && isTooFar(least, now)) {
    double expected = closed.front().expected * mostTimesExpected;
    if (now - since > Nanoseconds(static_cast<std::int64_t>(expected)) + mostBehindExpected)
      isLetGo = true;
    if (now - began < spinFor)
      runtime::pauseProcessor();
    else
      std::this_thread::sleep_for(nap);
    now = runtime::SteadyClock{}();
    std::size_t before = closed.size();
    sweep(now);
    if (closed.size() != before)
      since = now;
  }
  if (now == began)
    return false;
  bound.waited(now, activity.restsSoFar());
  return true;
}

StreamAhead::Answer StreamAhead::admit(StreamState &stream, const AheadWork &work) {
  std::unique_lock lock(mutex);
  Estimate &estimate = estimateOf(work);
  if (!std::exchange(estimate.isMet, true))
    return Answer::Meet;
  if (captures.any())
    return Answer::Go;
  Nanoseconds now = runtime::SteadyClock{}();
  dropIdle(stream, now);
  if ((!isDry || trace) && now - lastAt.sweep > sweepInterval)
    sweep(now);
  bool isNew = !estimate.isKnown || estimate.isUnmeasured || estimate.isDoubtful;
  if (open.operations != 0 && (isNew || isFull(now)))
    close(stream);
  if (isTooFar(estimate.ns, now) && waitUntilAdmissible(stream, estimate.ns))
    return Answer::Waited;
  if (open.operations == 0)
    begin(stream, now, isNew);
  if (open.work.empty() || open.work.back().estimate != &estimate)
    open.work.push_back({&estimate, estimate.ns});
  ++open.operations;
  owner.notePut();
  open.expected += estimate.ns;
  lastAt.put = now;
  passed = 0;
  estimate.isUnmeasured = false;
  if (!isNew)
    *estimate.recent = {estimate.recent->key, &estimate, static_cast<float>(estimate.ns), true,
                        work.isCounted};
  return isNew ? Answer::GoUnknown : Answer::Go;
}

StreamAhead::Passed StreamAhead::passAgain(const AheadWork &work) {
  std::uint64_t key = keyOf(work);
  std::unique_lock lock(mutex);
  const Recent &known = recentOf(key).of(key);
  double expected = open.expected + static_cast<double>(known.ns);
  if (known.key != key || !known.isKnown || open.operations == 0 || expected > open.mostAgain ||
      passed == mostPassed)
    return Passed::No;
  ++passed;
  open.expected = expected;
  if (open.work.empty() || open.work.back().estimate != known.estimate)
    open.work.push_back({known.estimate, static_cast<double>(known.ns)});
  ++open.operations;
  owner.notePut();
  return known.isCounted ? Passed::Counted : Passed::Yes;
}

Nanoseconds StreamAhead::takeNews(const AheadWork &work) {
  std::unique_lock lock(mutex);
  auto found = estimates.find(keyOf(work));
  if (found == estimates.end() || !std::exchange(found->second.isNews, false))
    return Nanoseconds(0);
  return Nanoseconds(static_cast<std::int64_t>(found->second.ns));
}

void StreamAhead::closeBehind(StreamState &stream) {
  std::unique_lock lock(mutex);
  if (open.operations != 0 && !captures.any())
    close(stream);
}

/// The failed call's error is the thread's last error, which a query would replace.
void StreamAhead::takeBack(StreamState &stream, const AheadWork &work) {
  std::unique_lock lock(mutex);
  if (open.operations == 0 || captures.any())
    return; // it was not counted, or its group is closed
  --open.operations;
  ++putBefore;
  open.expected = std::max(0.0, open.expected - estimateOf(work).ns);
  if (open.operations != 0)
    return;
  Event from = drop().from.event;
  if (!from)
    return;
  std::thread([&] {
    beOnOwnThread(api, stream.device);
    Nanoseconds end = runtime::SteadyClock{}() + mostForOwnEvent;
    while (ask([&] { return api.cudaEventQuery(from.get()); }) == Said::No &&
           runtime::SteadyClock{}() < end)
      std::this_thread::yield();
  }).join();
}

/// Work of one class yields to work of a higher one, which needs the queue.
bool RunAhead::isOneClass(const StreamState &stream) {
  std::uint32_t bit = 1u << stream.bestEffortClass.load(std::memory_order_relaxed);
  std::uint32_t seen = classes.load(std::memory_order_relaxed);
  if ((seen & bit) == 0)
    seen = classes.fetch_or(bit) | bit;
  return seen == bit;
}

/// The other classes and processes are gone. Waits until the queue is empty, for a bounded time:
/// queued work may depend on the next step of the calling thread.
bool RunAhead::settle() {
  std::unique_lock lock(settling, std::try_to_lock);
  Nanoseconds now = runtime::SteadyClock{}();
  if (!lock || now < settleAgain)
    return false;
  for (Nanoseconds end = now + longestSettling; now < end; now = runtime::SteadyClock{}()) {
    if (queue.isIdle())
      return true;
    if (!isAlone())
      return false;
    std::this_thread::sleep_for(nap);
  }
  settleAgain = now + timesSettling * longestSettling;
  return false;
}

StreamAhead &RunAhead::add(StreamState &stream) {
  std::unique_lock lock(adding);
  StreamAhead *known = stream.ahead.load();
  if (!known || &known->owner != this) {
    constexpr std::size_t mostTraced = 50;
    auto number = static_cast<std::uint8_t>(streams.size() % mostTraced);
    known = &streams.emplace_back(*this, api, captures, activity, bound, trace, number);
    stream.ahead.store(known, std::memory_order_release);
  }
  return *known;
}

std::uint64_t RunAhead::launches(bool areCounted) const {
  std::unique_lock lock(adding);
  std::uint64_t sum = 0;
  for (const StreamAhead &each : streams)
    sum += each.launchesSoFar(areCounted);
  return sum;
}

} // namespace tally::hooks
