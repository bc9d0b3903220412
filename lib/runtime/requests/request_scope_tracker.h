// High-priority streams and request scopes: who is counted in the control word, and until when.
//
// Explicit scopes are counted one by one. A call on a stream while no explicit scope is open opens
// the stream's implicit scope, which a monitor (the dispatcher's thread) closes once the stream has
// come to rest; so the launch path costs two atomic additions, or one. When the last explicit scope
// ends, streams that nobody has synchronised since their last call get an implicit scope too: work
// that a request leaves behind stays protected, and where the request was synchronised, its end is
// exact.
//
// A stream has come to rest some microseconds (rest_time.h) after a wait for it was over or the
// device said that it is idle: a server whose next request is there already makes its first call by
// then, and finds the device as the last one left it. While a thread waits for the stream the
// device is not asked: that thread says when it is over, and is not overtaken.
//
// A stream that a request has named has no such time: its program says when requests end. At the
// end of the request its implicit scope is closed where its calls are over, and else as soon as
// they are.
//
// Scopes are counted in the process's own control word and, where there is one, in its slot of the
// arena: the slot first and last, since that takes nanoseconds and the control word a call of the
// driver's.
//
// What is kept of a stream outlives it and is used again for another one, so that whoever looks at
// all of them needs no lock: a scope that is open when its stream is released stays counted, and
// the monitor closes it.
#ifndef TALLY_LIB_RUNTIME_REQUESTS_REQUEST_SCOPE_TRACKER_H
#define TALLY_LIB_RUNTIME_REQUESTS_REQUEST_SCOPE_TRACKER_H

#include "arena/arena.h"
#include "base/stable_table.h"
#include "requests/device_control.h"
#include "requests/high_stream.h"
#include "requests/request_headroom.h"
#include "requests/rest_time.h"
#include "requests/wake_trace.h"

#include "tally/runtime/control_word.h"

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>

namespace tally::runtime {

class RequestScopeTracker {
public:
  RequestScopeTracker(SignalDevice &device, DeviceControl &control)
      : device(device), control(control), traced(control) {}

  /// The slot in which other processes see this one's scopes, or none. While no scope is open:
  /// those that are counted in must be counted out.
  void publishTo(ArenaSlot *slot) { published = slot; }

  /// Where it is noted when scopes woke and when the last one was closed.
  WakeTrace &wakeTrace() { return traced; }

  /// `at`, here and below: of SteadyClock, which the control word has too, from who has just
  /// looked.
  Result<void> beginRequest(std::optional<Nanoseconds> at = std::nullopt);
  /// Returns whether best-effort work may run again. Fails when no request is open. `named`: the
  /// streams that are the request's; it may be that only now they are known to be.
  Result<bool> endRequest(std::span<HighStream *const> named = {},
                          std::optional<Nanoseconds> at = std::nullopt);

  /// A stream of the device's that calls pass through to from now on.
  Result<HighStream *> adopt(StreamId id);
  /// No call on it is being made or will be. When this returns the device is not asked about it any
  /// more; what is still on it counts as over.
  void release(HighStream &stream);
  HighStream *find(std::uint64_t number) const { return streams.find(number); }
  std::size_t streamCount() const { return streams.size(); }

  /// Around every call that puts work on the stream: begin, the call, end whatever came of it.
  Result<void> beginCall(HighStream &stream) {
    return isCountedAt(stream.word.fetch_add(HighStream::oneCall)) ? Result<void>{}
                                                                   : openForCall(stream);
  }
  void endCall(HighStream &stream) {
    stream.word.fetch_add(HighStream::oneMade - HighStream::oneCall);
    // Mostly somebody else has made the write meanwhile. A device that fails here says so to
    // whoever waits for best-effort work.
    if (control.isDue()) [[unlikely]]
      flush();
  }
  /// beginCall(); whether endCall() has to follow. A wake that could not be told to the device must
  /// not keep the call from being made.
  bool countCall(HighStream &stream) {
    return isCountedAt(stream.word.fetch_add(HighStream::oneCall)) ||
           static_cast<bool>(openForCall(stream));
  }
  /// The same around a launch by the stream's owner; who has opened a scope sees to the write.
  enum class OwnCount : std::uint8_t { No, Counted, Opened };
  OwnCount countOwnLaunch(HighStream &stream) {
    stream.ownBegun.store(stream.ownBegun.load(std::memory_order_relaxed) + 1,
                          std::memory_order_relaxed);
    std::uint64_t before = stream.word.fetch_add(HighStream::oneMade);
    return isCountedAt(before) ? OwnCount::Counted : openForOwnLaunch(stream);
  }
  void endOwnLaunch(HighStream &stream, OwnCount counted) {
    if (counted != OwnCount::No) [[likely]]
      stream.ownMade.store(stream.ownMade.load(std::memory_order_relaxed) + 1,
                           std::memory_order_release);
    if (counted == OwnCount::Opened) [[unlikely]]
      flush();
  }
  Result<void> synchronize(HighStream &stream);
  /// For who waits for the stream by a call of its own: `wait` makes it, and returns whether all
  /// that was put on the stream before is over.
  template <class Wait> void synchronizeBy(HighStream &stream, Wait wait) {
    Waiting during(*this, stream);
    during.isOver = wait();
  }
  /// Closes the stream's implicit scope whatever is on it.
  void abandon(HighStream &stream);

  /// Closes the implicit scopes of streams that have come to rest. Returns whether any was closed.
  /// For one thread at a time. Fails when the device does.
  Result<bool> monitor();
  /// For that thread, while it looks at little else: sees how soon the next call comes behind a
  /// stream's last work. What it did not look at for some microseconds it leaves out.
  void watch();
  /// How long a stream stays open behind its last work.
  Nanoseconds restTime() const { return rest.now(); }
  /// How long it is until a stream may have come to rest for which monitor() has not looked since;
  /// Nanoseconds::max() where none may. For the thread that calls monitor().
  Nanoseconds untilRest() const;
  /// Statistics, where there is a slot: how many calls were made; what a request took.
  void noteCalls();
  void noteRequest(Nanoseconds took, bool missedDeadline = false) {
    ArenaSlot *slot = published;
    if (!slot)
      return;
    slot->addRequest(took);
    if (missedDeadline)
      slot->add(ArenaCounter::MissedDeadlines);
  }
  /// A request that was over before anybody could have seen it.
  void noteUncounted() {
    if (ArenaSlot *slot = published)
      slot->add(ArenaCounter::Requests);
  }
  /// Whether a stream's implicit scope is open, which monitor() has to close.
  bool hasImplicit() const;

  /// What pauses must leave room for.
  RequestHeadroom &headroom() { return left; }
  const RequestHeadroom &headroom() const { return left; }

  /// Whether a call is being made on some stream.
  bool isCalling() const;
  /// Another number when a call has been made or a scope has begun or ended.
  std::uint64_t progress() const;
  /// Whether there is work of high priority on the device, and all of it is known to fit.
  bool runsWhatFits() const;

private:
  /// A thread's wait for a stream.
  struct Waiting {
    Waiting(RequestScopeTracker &scopes, HighStream &stream)
        : scopes(scopes), stream(stream), made(stream.calls().made) {
      stream.waiting.fetch_add(1);
    }
    ~Waiting() {
      if (isOver)
        scopes.noteSynchronised(stream, made);
      stream.waiting.fetch_sub(1); // noted before: the device need not be asked
    }
    Waiting(const Waiting &) = delete;
    Waiting &operator=(const Waiting &) = delete;

    RequestScopeTracker &scopes;
    HighStream &stream;
    const std::uint64_t made; ///< calls, before the wait
    bool isOver = false;
  };

  /// So many calls on the stream are known to be over.
  void noteSynchronised(HighStream &stream, std::uint64_t made);
  bool isCountedAt(std::uint64_t word) const {
    return (word & HighStream::openBit) != 0 || explicitScopes.load() != 0;
  }
  Result<void> openForCall(HighStream &stream);
  OwnCount openForOwnLaunch(HighStream &stream);
  void flush();
  /// `callFollows`: one that endCall() stands behind, which sees to the write.
  Result<void> raise(bool callFollows, std::optional<Nanoseconds> at = std::nullopt);
  Result<bool> withdraw(std::optional<Nanoseconds> at = std::nullopt);
  Result<void> openImplicit(HighStream &stream);
  Result<void> closeIfOver(HighStream &stream);
  /// Whether the device has nothing on the stream; so it is where the stream was released.
  Result<bool> isIdle(HighStream &stream) const;

  SignalDevice &device;
  DeviceControl &control;
  std::atomic<ArenaSlot *> published{nullptr};
  WakeTrace traced;
  std::atomic<std::uint32_t> explicitScopes{0};
  RequestHeadroom left;
  static constexpr std::int64_t never = INT64_MIN;
  std::atomic<std::uint64_t> scopeChanges{0};
  // Written once a request, and read by the dispatcher's thread again and again.
  alignas(64) std::atomic<std::int64_t> lastSynchronised{never}; ///< any stream
  // The monitor's own.
  alignas(64) std::int64_t restLookedFor = never; ///< the last that it has seen to
  std::int64_t watchedFor = never;                ///< likewise, watch()
  Nanoseconds lastLook{0};
  RestTime rest;
  StableTable<HighStream> streams;
  std::mutex releasing;
  HighStream *released = nullptr; ///< those to be used again; guarded by it
};

} // namespace tally::runtime

#endif
