#include "requests/request_scope_tracker.h"

#include <algorithm>
#include <thread>
#include <utility>

namespace tally::runtime {

namespace {

bool isOpen(std::uint64_t word) { return (word & HighStream::openBit) != 0; }

} // namespace

Result<void> RequestScopeTracker::beginRequest(std::optional<Nanoseconds> at) {
  if (Result<void> raised = raise(false, at); !raised)
    return raised;
  if (ArenaSlot *slot = published)
    slot->add(ArenaCounter::Requests);
  explicitScopes.fetch_add(1);
  scopeChanges.fetch_add(1, std::memory_order_relaxed);
  return {};
}

Result<bool> RequestScopeTracker::endRequest(std::span<HighStream *const> named,
                                             std::optional<Nanoseconds> at) {
  std::uint32_t open = explicitScopes.load();
  do
    if (open == 0)
      return Error{"endRequest: no request is open"};
  while (!explicitScopes.compare_exchange_weak(open, open - 1));
  scopeChanges.fetch_add(1, std::memory_order_relaxed);
  if (open == 1)
    // A call that begins from here on sees no explicit scope and opens an implicit one; a call that
    // began before shows in its stream's word.
    for (std::uint64_t number = 1; number <= streams.size(); ++number) {
      HighStream &stream = *streams.find(number);
      HighStream::Calls calls = stream.calls();
      if (calls.isBeingMade || calls.made != stream.synchronised.load())
        // The count is above 0 until the withdraw() below, so this writes nothing and cannot fail.
        if (Result<void> kept = openImplicit(stream); !kept)
          return kept.error();
    }
  for (HighStream *each : named) {
    each->isNamed.store(true, std::memory_order_relaxed);
    if (Result<void> closed = closeIfOver(*each); !closed)
      return closed.error();
  }
  return withdraw(at);
}

/// Closes the stream's implicit scope if its calls are over, as monitor() does: a call that begins
/// meanwhile changes the word. Call it only while another scope is counted.
Result<void> RequestScopeTracker::closeIfOver(HighStream &stream) {
  auto [word, isBeingMade, made] = stream.calls();
  if (!isOpen(word) || isBeingMade || made != stream.synchronised.load() ||
      !stream.word.compare_exchange_strong(word, word & ~HighStream::openBit))
    return {};
  Result<bool> withdrawn = withdraw();
  return withdrawn ? Result<void>() : withdrawn.error();
}

Result<HighStream *> RequestScopeTracker::adopt(StreamId id) {
  std::unique_lock lock(releasing);
  if (HighStream *again = released) {
    released = again->nextReleased;
    again->id = id;
    again->isNamed = false;
    again->isReleased = false;
    return again;
  }
  auto stream = std::make_unique<HighStream>();
  stream->id = id;
  HighStream *raw = stream.get();
  if (!streams.add(std::move(stream)))
    return Error{"too many high-priority streams"};
  return raw;
}

void RequestScopeTracker::release(HighStream &stream) {
  left.noteGone(stream);
  stream.isReleased = true;
  while (stream.asking.load() != 0)
    std::this_thread::yield(); // isIdle() takes about a microsecond
  std::unique_lock lock(releasing);
  stream.nextReleased = std::exchange(released, &stream);
}

Result<bool> RequestScopeTracker::isIdle(HighStream &stream) const {
  stream.asking.fetch_add(1);
  Result<bool> idle = stream.isReleased.load() ? Result<bool>(true) : device.isIdle(stream.id);
  stream.asking.fetch_sub(1);
  return idle;
}

Result<void> RequestScopeTracker::openImplicit(HighStream &stream) {
  // Count before setting the bit, so that the monitor never counts out a scope not yet counted in.
  if (Result<void> raised = raise(true); !raised)
    return raised;
  if (isOpen(stream.word.fetch_or(HighStream::openBit)))
    if (Result<bool> twice = withdraw(); !twice)
      return twice.error();
  return {};
}

Result<void> RequestScopeTracker::openForCall(HighStream &stream) {
  Result<void> opened = openImplicit(stream);
  if (!opened)
    stream.word.fetch_sub(HighStream::oneCall);
  return opened;
}

RequestScopeTracker::OwnCount RequestScopeTracker::openForOwnLaunch(HighStream &stream) {
  if (openImplicit(stream))
    return OwnCount::Opened;
  stream.word.fetch_sub(HighStream::oneMade);
  stream.ownBegun.store(stream.ownBegun.load() - 1);
  return OwnCount::No;
}

void RequestScopeTracker::flush() { static_cast<void>(control.flush()); }

Result<void> RequestScopeTracker::synchronize(HighStream &stream) {
  Result<void> done;
  synchronizeBy(stream, [&] {
    done = device.synchronize(stream.id);
    return static_cast<bool>(done);
  });
  return done;
}

/// Stores the time before the count, so that the monitor finds no time from before these calls.
void RequestScopeTracker::noteSynchronised(HighStream &stream, std::uint64_t made) {
  std::int64_t now = control.now().count();
  std::uint64_t known = stream.synchronised.load();
  if (known >= made)
    return;
  stream.synchronisedAt.store(now);
  while (known < made && !stream.synchronised.compare_exchange_weak(known, made)) {
  }
  lastSynchronised.store(now);
}

void RequestScopeTracker::abandon(HighStream &stream) {
  if (isOpen(stream.word.fetch_and(~HighStream::openBit)))
    static_cast<void>(withdraw()); // writes nothing to the device
}

bool RequestScopeTracker::hasImplicit() const {
  for (std::uint64_t number = 1; number <= streams.size(); ++number)
    if (const HighStream *stream = streams.find(number); stream && isOpen(stream->word.load()))
      return true;
  return false;
}

void RequestScopeTracker::noteCalls() {
  ArenaSlot *slot = published;
  if (!slot)
    return;
  std::uint64_t calls = 0;
  for (std::uint64_t number = 1; number <= streams.size(); ++number)
    if (const HighStream *stream = streams.find(number))
      calls += stream->calls().made;
  slot->set(ArenaCounter::HighCalls, calls);
}

bool RequestScopeTracker::isCalling() const {
  for (std::uint64_t number = 1; number <= streams.size(); ++number)
    if (const HighStream *stream = streams.find(number); stream && stream->calls().isBeingMade)
      return true;
  return false;
}

std::uint64_t RequestScopeTracker::progress() const {
  std::uint64_t sum = scopeChanges.load(std::memory_order_relaxed);
  for (std::uint64_t number = 1; number <= streams.size(); ++number)
    if (const HighStream *stream = streams.find(number))
      sum += stream->calls().made;
  return sum;
}

bool RequestScopeTracker::runsWhatFits() const {
  if (!left.knowsAll())
    return false;
  for (std::uint64_t number = 1; number <= streams.size(); ++number)
    if (HighStream *stream = streams.find(number))
      if (Result<bool> idle = isIdle(*stream); idle && !*idle)
        return true;
  return false;
}

Nanoseconds RequestScopeTracker::untilRest() const {
  std::int64_t last = lastSynchronised.load();
  if (last == restLookedFor)
    return Nanoseconds::max();
  return std::max(Nanoseconds(last) + rest.now() - control.now(), Nanoseconds(0));
}

/// Skips a gap if the thread was away between two looks, since the call's time is unknown then.
void RequestScopeTracker::watch() {
  Nanoseconds now = control.now(), before = std::exchange(lastLook, now);
  std::int64_t last = lastSynchronised.load();
  if (last == watchedFor)
    return;
  bool isPending = false;
  for (std::uint64_t number = 1; number <= streams.size(); ++number) {
    HighStream *stream = streams.find(number);
    if (!stream)
      continue;
    std::int64_t over = stream->synchronisedAt.load();
    if (over == stream->watched)
      continue;
    Nanoseconds gap = now - Nanoseconds(over);
    HighStream::Calls calls = stream->calls();
    bool hasCome = calls.isBeingMade || calls.made != stream->synchronised.load();
    if (!hasCome && gap <= RestTime::longest) {
      isPending = true;
      continue;
    }
    stream->watched = over;
    if (!hasCome || now - before <= 2 * RestTime::doubt)
      rest.see(gap);
  }
  if (!isPending)
    watchedFor = last;
}

Result<bool> RequestScopeTracker::monitor() {
  std::int64_t last = lastSynchronised.load();
  Nanoseconds now = control.now();
  auto isLongAgo = [&](std::int64_t time) { return now - Nanoseconds(time) >= rest.now(); };
  if (last != never && isLongAgo(last))
    restLookedFor = last;
  bool closed = false;
  for (std::uint64_t number = 1; number <= streams.size(); ++number) {
    HighStream &stream = *streams.find(number);
    auto [word, isBeingMade, made] = stream.calls();
    if (!isOpen(word))
      continue;
    bool isNamed = stream.isNamed.load(std::memory_order_relaxed);
    // Do not ask the device while calls keep coming.
    bool still = !isBeingMade && (isNamed || word == stream.lastSeen);
    stream.lastSeen = word;
    if (stream.synchronised.load() != made) {
      if (!still || stream.waiting.load() != 0)
        continue;
      Result<bool> idle = isIdle(stream);
      if (!idle)
        return idle.error();
      if (*idle)
        noteSynchronised(stream, made);
      if (!*idle || !isNamed)
        continue;
    }
    if (isBeingMade || !(isNamed || isLongAgo(stream.synchronisedAt.load())))
      continue;
    // Fails when a call began meanwhile.
    if (!stream.word.compare_exchange_strong(word, word & ~HighStream::openBit))
      continue;
    Result<bool> withdrawn = withdraw();
    if (!withdrawn)
      return withdrawn.error();
    closed = true;
  }
  return closed;
}

} // namespace tally::runtime
