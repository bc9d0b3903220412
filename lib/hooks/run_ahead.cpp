#include "run_ahead.h"

#include "spin.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace tally::hooks {

using namespace std::chrono_literals;
using runtime::Nanoseconds;

namespace {

/// Events stand between groups of so much of the bound.
constexpr double groupsOfBound = 5;
/// What is taken for the duration of an operation of which nothing is known.
constexpr double unknownNs = 1e6;
constexpr double leastNs = 500;
/// A stream that had nothing put on it for so long may have come to rest, and what it then waited
/// for its thread is no duration.
constexpr Nanoseconds longGap = 100us;
constexpr Nanoseconds sweepInterval = 250us;
/// Waiting threads look again and again for so long, then sleep between looks.
constexpr Nanoseconds spinFor = 50us, nap = 50us;
/// A thread waits for at most so many times what was expected, and so long behind that.
constexpr double mostTimesExpected = 4;
constexpr Nanoseconds mostBehindExpected = 100ms;
/// A thread waits so long for what is queued, and not again for so many times that.
constexpr Nanoseconds longestSettling = 20ms;
constexpr int timesSettling = 10;
constexpr std::size_t mostEstimates = 4096, mostEvents = 64;

std::uint64_t keyOf(const AheadWork &work) {
  std::uint64_t mixed = reinterpret_cast<std::uint64_t>(work.identity) * 0x9e3779b97f4a7c15;
  return (mixed ^ (mixed >> 29)) + work.size * 0xbf58476d1ce4e5b9;
}

} // namespace

StreamAhead::Estimate &StreamAhead::estimateOf(const AheadWork &work) {
  std::uint64_t key = keyOf(work);
  auto found = estimates.find(key);
  if (found != estimates.end())
    return found->second;
  if (estimates.size() >= mostEstimates) {
    for (Group &each : closed)
      each.work.clear();
    open.work.clear();
    estimates.clear();
    kinds.clear();
  }
  Kind &kind = kinds[work.identity];
  Estimate &made = estimates[key];
  made.kind = &kind;
  made.size = static_cast<double>(std::max<std::uint64_t>(work.size, 1));
  made.isKnown = kind.nsOfUnit != 0;
  made.ns = made.isKnown ? std::max(kind.nsOfUnit * made.size, leastNs) : unknownNs;
  return made;
}

/// nullptr where none can be recorded.
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
  if (ask(take) != Answer::Yes)
    return nullptr;
  Event made(event, [this](cudaEvent_t used) {
    if (spare.size() < mostEvents)
      spare.push_back(used);
    else
      api.cudaEventDestroy(used);
  });
  auto put = [&] { return api.cudaEventRecord(event, stream.handle); };
  return ask(put) == Answer::Yes ? made : nullptr;
}

/// A question leaves an error where the answer is no, which the program would find, and may make a
/// capture invalid.
template <class Question> StreamAhead::Answer StreamAhead::ask(const Question &question) {
  if (api.cudaPeekAtLastError() != cudaSuccess)
    return Answer::Unknown;
  cudaError_t status = cudaErrorNotReady;
  if (!captures.ask([&] { status = question(); }))
    return Answer::No;
  if (status == cudaSuccess)
    return Answer::Yes;
  api.cudaGetLastError();
  return status == cudaErrorNotReady ? Answer::No : Answer::Unknown;
}

void StreamAhead::begin(StreamState &stream) {
  sweep(runtime::SteadyClock{}());
  open = {};
  open.from = closed.empty() ? record(stream) : closed.back().to;
}

void StreamAhead::close(StreamState &stream) {
  open.to = record(stream);
  if (open.from && open.to) {
    if (closed.empty())
      firstSince = runtime::SteadyClock{}();
    closedExpected += open.expected;
    closed.push_back(std::move(open));
  }
  open = {};
}

/// Takes out the groups that are over.
void StreamAhead::sweep(Nanoseconds now) {
  lastSweep = now;
  while (!closed.empty()) {
    Group &first = closed.front();
    Answer over = ask([&] { return api.cudaEventQuery(first.to.get()); });
    if (over == Answer::No)
      return;
    if (over == Answer::Yes)
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

/// Longer is believed at once, shorter by halves.
void StreamAhead::learn(Group &group) {
  float ms = 0;
  auto elapsed = [&] { return api.cudaEventElapsedTime(&ms, group.from.get(), group.to.get()); };
  if (group.work.empty() || ask(elapsed) != Answer::Yes)
    return;
  double took = std::max(static_cast<double>(ms) * 1e6, leastNs);
  double factor = took / group.expected;
  bool isAlone = group.operations == 1 && !group.work.front().first->isKnown;
  if (!isAlone && factor < 1)
    factor = (1 + factor) / 2;
  for (auto &[estimate, count] : group.work) {
    estimate->ns = std::max(estimate->ns * factor, leastNs);
    estimate->isKnown = true;
    estimate->kind->nsOfUnit = estimate->ns / estimate->size;
  }
}

/// Where the stream has come to rest its thread was what it waited for.
void StreamAhead::dropIdle(StreamState &stream, Nanoseconds now) {
  if (ask([&] { return api.cudaStreamQuery(stream.handle); }) != Answer::Yes)
    return;
  sweep(now);
  open = {};
}

/// ns. What takes longer than expected counts with what it has taken.
double StreamAhead::ahead(Nanoseconds now) const {
  double sum = closedExpected + open.expected;
  if (closed.empty())
    return sum;
  double first = closed.front().expected;
  return sum - first + std::max(first, static_cast<double>((now - firstSince).count()));
}

/// Returns when the first group is over, a capture begins, or at `until`.
void StreamAhead::waitForFirst(Nanoseconds until) {
  std::size_t before = closed.size();
  Nanoseconds began = runtime::SteadyClock{}();
  for (Nanoseconds now = began; now < until; now = runtime::SteadyClock{}()) {
    sweep(now);
    if (closed.size() < before || captures.any())
      return;
    if (now - began < spinFor)
      runtime::pauseProcessor();
    else
      std::this_thread::sleep_for(nap);
  }
  isLetGo = true;
}

void StreamAhead::admit(StreamState &stream, const AheadWork &work) {
  Nanoseconds now = runtime::SteadyClock{}();
  if (now - lastPut > longGap && (!closed.empty() || open.from))
    dropIdle(stream, now);
  if (now - lastSweep > sweepInterval)
    sweep(now);
  Estimate &estimate = estimateOf(work);
  if (!estimate.isKnown && open.operations != 0)
    close(stream);
  auto limit = static_cast<double>(bound.count());
  if (!isLetGo && ahead(now) + estimate.ns > limit) {
    sweep(now);
    if (open.operations != 0)
      close(stream);
    while (!isLetGo && !closed.empty() && !captures.any() && ahead(now) + estimate.ns > limit) {
      double expected = closed.front().expected * mostTimesExpected;
      waitForFirst(now + Nanoseconds(static_cast<std::int64_t>(expected)) + mostBehindExpected);
      now = runtime::SteadyClock{}();
    }
  }
  if (!open.from)
    begin(stream);
}

std::uint64_t StreamAhead::put(StreamState &stream, const AheadWork &work) {
  lastPut = runtime::SteadyClock{}();
  Estimate &estimate = estimateOf(work);
  if (!open.work.empty() && open.work.back().first == &estimate)
    ++open.work.back().second;
  else
    open.work.emplace_back(&estimate, 1);
  ++open.operations;
  open.expected += estimate.ns;
  std::uint64_t operations = open.operations;
  if (estimate.isKnown && open.expected * groupsOfBound < static_cast<double>(bound.count()))
    return 0;
  close(stream);
  return operations;
}

/// Work of a class makes way for that of a higher one, which takes the queue.
bool RunAhead::isOneClass(const StreamState &stream) {
  std::uint32_t bit = 1u << stream.bestEffortClass.load(std::memory_order_relaxed);
  std::uint32_t seen = classes.load(std::memory_order_relaxed);
  if ((seen & bit) == 0)
    seen = classes.fetch_or(bit) | bit;
  return seen == bit;
}

/// Others have gone. Waits until nothing is queued any more, though not for ever: what is queued
/// may depend on what the calling thread does next.
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

StreamAhead &RunAhead::of(StreamState &stream) {
  StreamAhead *known = stream.ahead.load(std::memory_order_acquire);
  if (known && &known->owner == this)
    return *known;
  std::unique_lock lock(adding);
  known = stream.ahead.load();
  if (!known || &known->owner != this) {
    constexpr std::size_t mostTraced = 50;
    auto number = static_cast<std::uint8_t>(streams.size() % mostTraced);
    known = &streams.emplace_back(*this, api, captures, bound, trace, number);
    stream.ahead.store(known, std::memory_order_release);
  }
  return *known;
}

/// While a capture is open events may not be asked about.
void RunAhead::admit(StreamState &stream, const AheadWork &work) {
  if (captures.any())
    return;
  StreamAhead &own = of(stream);
  std::unique_lock lock(own.mutex);
  own.admit(stream, work);
}

void RunAhead::put(StreamState &stream, const AheadWork &work) {
  if (work.identity != &copies)
    launched.fetch_add(1, std::memory_order_relaxed);
  if (captures.any())
    return;
  StreamAhead &own = of(stream);
  std::uint64_t operations = 0;
  {
    std::unique_lock lock(own.mutex);
    operations = own.put(stream, work);
  }
  if (operations != 0)
    activity.noteAhead(operations);
}

} // namespace tally::hooks
