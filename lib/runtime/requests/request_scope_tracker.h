// High-priority streams and request scopes: which scopes the control word counts, and until when.
//
// Explicit scopes are counted one by one. A call on a stream while no explicit scope is open opens
// the stream's implicit scope. A monitor (the dispatcher's thread) closes the implicit scope once
// the stream has come to rest; so the launch path costs two atomic additions, or one. When the last
// explicit scope ends, each stream that no thread has synchronised since its last call gets an
// implicit scope too. So work that a request leaves behind stays protected; if the request was
// synchronised, its end is exact.
//
// A stream has come to rest some microseconds (rest_time.h) after a wait for the stream was over or
// the device said that it is idle. A server whose next request has arrived already makes its first
// call within this time, and finds the device as the last request left it. While a thread waits for
// the stream, the monitor does not ask the device: the thread reports the end of the wait itself.
//
// A stream that a request has named needs no time to rest: its program says when requests end. Its
// implicit scope is closed at the end of the request, or later, as soon as its calls are over.
//
// Scopes are counted in the process's own control word and, if there is one, in its slot of the
// arena: first in and last out at the slot, which takes nanoseconds, while the control word takes a
// driver call.
//
// The record of a stream outlives the stream and is used again for another stream, so that a thread
// that looks at all records needs no lock. A scope that is open when its stream is released stays
// counted, and the monitor closes it.
#ifndef TALLY_LIB_RUNTIME_REQUESTS_REQUEST_SCOPE_TRACKER_H
#define TALLY_LIB_RUNTIME_REQUESTS_REQUEST_SCOPE_TRACKER_H

#include "arena/arena.h"
#include "base/stable_table.h"
#include "requests/device_control.h"
#include "requests/high_stream.h"
#include "requests/high_waits.h"
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

  /// Sets the slot in which other processes see this process's scopes; nullptr: none. Call it while
  /// no scope is open, since a scope must be counted out where it was counted in.
  void publishTo(ArenaSlot *slot) {
    published = slot;
    waited.publishTo(slot);
  }

  /// Records in a trace when scopes woke the high priority and when the last scope was closed.
  WakeTrace &wakeTrace() { return traced; }

  /// Begins an explicit scope. `at`, here and below: the time of SteadyClock (also the control
  /// word's clock), if the caller has just read it.
  Result<void> beginRequest(std::optional<Nanoseconds> at = std::nullopt);
  /// Ends an explicit scope. Returns whether best-effort work may run again. Fails when no request
  /// is open. `named`: the streams that belong to the request; they may become known only now.
  Result<bool> endRequest(std::span<HighStream *const> named = {},
                          std::optional<Nanoseconds> at = std::nullopt);

  /// Adds a stream of the device; calls on it pass through from now on.
  Result<HighStream *> adopt(StreamId id);
  /// Removes a stream; no call on it may be under way or follow. After the return no thread asks
  /// the device about the stream; work still on it counts as over.
  void release(HighStream &stream);
  HighStream *find(std::uint64_t number) const { return streams.find(number); }

  /// Put these around every call that puts work on the stream; endCall() even if the call fails.
  Result<void> beginCall(HighStream &stream) {
    return isCountedAt(stream.word.fetch_add(HighStream::oneCall)) ? Result<void>{}
                                                                   : openForCall(stream);
  }
  void endCall(HighStream &stream) {
    stream.word.fetch_add(HighStream::oneMade - HighStream::oneCall);
    // Mostly the listening thread has made the write meanwhile. If the device fails here, a thread
    // that waits for best-effort work gets the error.
    if (control.isDue()) [[unlikely]]
      flush();
  }
  /// Like beginCall(), but returns whether endCall() has to follow: a wake that could not be
  /// written to the device must not prevent the call.
  bool countCall(HighStream &stream) {
    return isCountedAt(stream.word.fetch_add(HighStream::oneCall)) ||
           static_cast<bool>(openForCall(stream));
  }
  /// Put countOwnLaunch() and endOwnLaunch() around a launch by the stream's owner. If the launch
  /// opened a scope, endOwnLaunch() writes the wake to the device.
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
  /// For a caller that waits for the stream with its own call: `wait` makes the call, and returns
  /// whether all work put on the stream before is over.
  template <class Wait> void synchronizeBy(HighStream &stream, Wait wait) {
    Waiting during(*this, stream);
    during.isOver = wait();
  }
  /// The waits for streams' work.
  HighWaits &waits() { return waited; }
  /// Closes the stream's implicit scope even if work is on the stream.
  void abandon(HighStream &stream);

  /// Closes the implicit scopes of streams that have come to rest. Returns whether any was closed.
  /// For one thread at a time. Fails when the device does.
  Result<bool> monitor();
  /// Measures how soon the next call comes after a stream's last work. The monitor's thread calls
  /// it while it polls; times between two looks that are some microseconds apart are not counted.
  void watch();
  /// How long a stream stays open after its last work.
  Nanoseconds restTime() const { return rest.now(); }
  /// Time until a stream may have come to rest at which monitor() has not looked since;
  /// Nanoseconds::max() if there is no such stream. For the thread that calls monitor().
  Nanoseconds untilRest() const;
  /// Write statistics to the slot, if there is one: the number of calls; a request's duration.
  void noteCalls();
  /// `wasCounted`: false for a request that was over before any other thread could see it.
  void noteRequest(Nanoseconds took, bool missedDeadline = false, bool wasCounted = true) {
    ArenaSlot *slot = published;
    if (!slot)
      return;
    slot->addRequest(took);
    if (missedDeadline)
      slot->add(ArenaCounter::MissedDeadlines);
    if (!wasCounted)
      slot->add(ArenaCounter::Requests);
  }
  /// Whether any stream's implicit scope is open; monitor() has to close it.
  bool hasImplicit() const;

  /// The headroom that pausing work must leave.
  RequestHeadroom &headroom() { return left; }
  const RequestHeadroom &headroom() const { return left; }

  /// Whether a call is being made on any stream.
  bool isCalling() const;
  /// A number that changes when a call has been made or a scope has begun or ended.
  std::uint64_t progress() const;
  /// Whether high-priority work is on the device and all of it is known to fit in the headroom.
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
        scopes.noteWaited(stream, made);
      stream.waiting.fetch_sub(1); // after noting, so that the device need not be asked
    }
    Waiting(const Waiting &) = delete;
    Waiting &operator=(const Waiting &) = delete;

    RequestScopeTracker &scopes;
    HighStream &stream;
    const std::uint64_t made; ///< calls made before the wait
    bool isOver = false;
  };

  /// The program has waited for the first `made` calls on the stream. A wait for no new calls does
  /// not count; the monitor may have seen before that they are over.
  void noteWaited(HighStream &stream, std::uint64_t made) {
    noteSynchronised(stream, made);
    if (stream.waitedFor.exchange(made, std::memory_order_relaxed) < made)
      waited.note(control.now());
  }
  /// Notes that the first `made` calls on the stream are known to be over.
  void noteSynchronised(HighStream &stream, std::uint64_t made);
  bool isCountedAt(std::uint64_t word) const {
    return (word & HighStream::openBit) != 0 || explicitScopes.load() != 0;
  }
  Result<void> openForCall(HighStream &stream);
  OwnCount openForOwnLaunch(HighStream &stream);
  void flush();
  /// `callFollows`: a call follows, and endCall() after it makes the write if it is still due.
  Result<void> raise(bool callFollows, std::optional<Nanoseconds> at = std::nullopt);
  Result<bool> withdraw(std::optional<Nanoseconds> at = std::nullopt);
  Result<void> openImplicit(HighStream &stream);
  Result<void> closeIfOver(HighStream &stream);
  /// Whether the device has no work on the stream; true for a released stream.
  Result<bool> isIdle(HighStream &stream) const;

  SignalDevice &device;
  DeviceControl &control;
  std::atomic<ArenaSlot *> published{nullptr};
  WakeTrace traced;
  std::atomic<std::uint32_t> explicitScopes{0};
  RequestHeadroom left;
  static constexpr std::int64_t never = INT64_MIN;
  std::atomic<std::uint64_t> scopeChanges{0};
  // Written once a request; the dispatcher's thread reads it all the time.
  alignas(64) std::atomic<std::int64_t> lastSynchronised{never}; ///< of all streams
  HighWaits waited;                                              ///< likewise
  // Used only by the monitor's thread.
  alignas(64) std::int64_t restLookedFor = never; ///< lastSynchronised that monitor() has handled
  std::int64_t watchedFor = never;                ///< lastSynchronised that watch() has handled
  Nanoseconds lastLook{0};
  RestTime rest;
  StableTable<HighStream> streams;
  std::mutex releasing;
  HighStream *released = nullptr; ///< list of records to use again; guarded by `releasing`
};

} // namespace tally::runtime

#endif
