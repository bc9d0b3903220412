// The host's side of the control word: asks best-effort work to yield, and gives the epoch under
// which it may be issued.
//
// raise() counts a high-priority scope in. The first scope after idle, a wake, advances the epoch,
// which then has to be written to the device, with no allocation. The write is a driver call, of
// several microseconds if the thread made none for a while. So the dispatcher's thread makes the
// write while it listens, beside the launch that woke; while no best-effort work is on the device
// no thread makes it. If the device can wait, the dispatcher's thread has put the write of the next
// epoch on the control stream ahead of time, after a wait for a word in mapped memory, the trigger.
// Then a wake is a store, which takes no call and does not contend with the launch that woke
// (arm()).
//
// withdraw() counts the scope out and changes nothing else: work that was asked to yield stays
// asked for ever, and work that is issued afterwards carries the new epoch.
//
// Races:
//  - Order of writes: one thread at a time writes, always the newest epoch, so writes are issued in
//    the order of epochs. An overtaken write is left out, since launches that yield to its epoch
//    yield to the newer epoch too.
//  - Waking thread and listener, a store-then-load (Dekker) handshake. The waking thread sets
//    `due`, then reads `listening`; the listener clears `listening`, then reads `due`. So one of
//    the two makes the write.
//  - Waking thread and sender, likewise: a wake advances the epoch, then reads `busy`; the sender
//    sets `busy` before it reads the epoch.
//  - Armed writes: an armed write is published before it is put on the stream, and only one thread
//    at a time puts writes there. A wake that sees the armed write leaves the write to it. A wake
//    that does not see it makes its own write, and lets the armed write go first. The trigger never
//    goes back, so an armed write that is put on the stream too late does not wait.
//  - permit() reads the epoch before the count. If a wake comes between the two, permit() sees the
//    count. If the wake comes later, the permit carries the old epoch, and the launch yields when
//    the write lands. A permit under the new epoch while its wake is still in the count cannot
//    happen.
//
// Pauses. While all batches under way pause (Pausing::All), a wake says PAUSE under the present
// epoch; where only some of them pause, it says PAUSE under the next epoch. After a pause under the
// present epoch no launch has yielded, so its end may say RUN. A thread that sends work that does
// not pause calls setPausing() first and asks for its permit then; a waking thread counts itself in
// before it reads the Pausing state. So one of the two threads sees the other, and work that does
// not pause never runs on beside a request that only paused. The thread that issues work ends the
// pause (settle()): it sees the count at 0, says RUN, and reads the count again. A thread that
// wakes meanwhile has counted itself in first.
//
// A launch may reach the device before the write of its own epoch does: blocks yield only to a
// greater epoch.
#ifndef TALLY_RUNTIME_CONTROL_WORD_H
#define TALLY_RUNTIME_CONTROL_WORD_H

#include "tally/bundle/abi.h"
#include "tally/policy/policy.h"
#include "tally/support/result.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

namespace tally::runtime {

struct ControlFields {
  std::uint64_t epoch = 0; ///< at most TALLY_CONTROL_EPOCH_MAX
  std::uint16_t workers = TALLY_CONTROL_WORKERS_UNLIMITED;
  tally_control_mode mode = TALLY_CONTROL_RUN;
  friend constexpr bool operator==(const ControlFields &, const ControlFields &) = default;
};

constexpr std::uint64_t encodeControl(const ControlFields &fields) {
  return fields.epoch << TALLY_CONTROL_EPOCH_SHIFT |
         std::uint64_t{fields.workers} << TALLY_CONTROL_WORKERS_SHIFT |
         static_cast<std::uint64_t>(fields.mode);
}
constexpr ControlFields decodeControl(std::uint64_t word) {
  return {word >> TALLY_CONTROL_EPOCH_SHIFT,
          static_cast<std::uint16_t>(word >> TALLY_CONTROL_WORKERS_SHIFT),
          static_cast<tally_control_mode>(word & 0xff)};
}

using Nanoseconds = std::chrono::nanoseconds;

/// The part of the in-flight best-effort work that can pause in place.
enum class Pausing : std::uint8_t { None, Some, All };

/// The clock of the runtime.
struct SteadyClock {
  Nanoseconds operator()() const { return std::chrono::steady_clock::now().time_since_epoch(); }
};

/// The only owner of a context's control word. It calls `Write` as `Result<void>(std::uint64_t)` to
/// store the word in device memory; the stores keep the order of the calls. `Clock` gives
/// nanoseconds that never go back. Thread-safe.
template <class Write, class Clock = SteadyClock> class ControlWord {
public:
  explicit ControlWord(Write write, Clock clock = {})
      : write(std::move(write)), clock(std::move(clock)) {}

  /// The word that device memory holds before the first raise().
  static constexpr std::uint64_t initialWord() { return encodeControl({}); }

  /// Call this shortly before raise(): prefetches the memory that raise() reads and writes, which
  /// other threads used last.
  void fetchForRaise() const {
    std::uint64_t next = epoch.load(std::memory_order_relaxed) + 1;
    __builtin_prefetch(&active, 1);
    __builtin_prefetch(&raisedAt[next % known], 1);
    __builtin_prefetch(&armed);
    __builtin_prefetch(&due);
    if (const std::atomic<std::uint64_t> *word = trigger.load(std::memory_order_relaxed))
      __builtin_prefetch(word, 1);
  }

  /// Counts a high-priority scope in. If the scope wakes from idle, best-effort work is asked to
  /// yield: at once, or by the thread that listens; then the caller should call flush() after its
  /// urgent work. If a write fails here, the scope is not counted. `mayPause`: false for work of
  /// another process: with time slicing it could not run while paused blocks nap here. `at`: the
  /// clock's time, if the caller has just read it.
  Result<void> raise([[maybe_unused]] bool mayPause = true,
                     [[maybe_unused]] std::optional<Nanoseconds> at = std::nullopt) {
    if (active.fetch_add(1) != 0)
      return {};
#ifdef TALLY_PLANT_CLEARED_CONTROL_WORD
    // Planted bug, for a test that must fail with it: a request that is set and cleared.
    Result<void> written = write(encodeControl({.epoch = 1}));
#else
    Nanoseconds now = at ? *at : clock();
    wokenAt.store(now.count());
    std::optional<std::uint64_t> next = askToYield(mayPause, now);
    // An armed write says RUN.
    bool isTold = next && armed.load() == *next && mode.load() == TALLY_CONTROL_RUN;
    if (!busy.load() || isTold)
      return {};
    due.store(true);
    if (listening.load())
      return {};
    Result<void> written = flush();
#endif
    if (!written)
      active.fetch_sub(1);
    return written;
  }

  /// Like raise(), for a caller without an urgent call: returns when the write was made. The
  /// listening thread makes it within a microsecond, unless the system has taken its core away;
  /// then the caller makes it.
  Result<void> raiseAndTell(bool mayPause = true, std::optional<Nanoseconds> at = std::nullopt) {
    constexpr Nanoseconds listenersTime{2000};
    if (Result<void> raised = raise(mayPause, at); !raised || !due.load())
      return raised;
    for (Nanoseconds end = SteadyClock{}() + listenersTime; due.load() && SteadyClock{}() < end;) {
    }
    Result<void> written = flush();
    if (!written)
      active.fetch_sub(1);
    return written;
  }

  /// Call this after raise() and before a driver call: returns when the listener has begun the
  /// write that raise() left to it, at the latest after about a microsecond. The two calls take
  /// turns in the driver, and the write is shorter and more urgent.
  void letWriteGoFirst() const {
    constexpr Nanoseconds listenersTime{1000};
    if (!due.load())
      return;
    for (Nanoseconds end = SteadyClock{}() + listenersTime; due.load() && SteadyClock{}() < end;) {
    }
  }

  /// Makes the write that is due, unless another thread is making it.
  Result<void> flush() {
    while (due.load() && !writing.test_and_set()) {
      due.store(false);
      disarm(); // else the write would come after the armed wait
      Result<void> written = write(wordOf(epoch.load(), modeToWrite()));
      writing.clear();
      if (!written)
        return written;
    }
    return {};
  }

  /// Whether a request to yield is still to be written; any thread may write it by flush().
  bool isDue() const { return due.load(); }
  /// Whether all requests to yield are written.
  bool isTold() const { return !isDue() && !writing.test(); }

  /// Sets the mode of requests where no work pauses: CHECKPOINT if running work can stop inside a
  /// block. Kinds that cannot do this act on the epoch alone. May be called at any time: launches
  /// yield at the ends of blocks to a request that was written before.
  void setRequestMode(tally_control_mode asked) { requestMode.store(asked); }

  // For the one thread that issues best-effort work.

  /// Asks all issued best-effort work to yield although no scope wakes, because the policy no
  /// longer lets it run.
  Result<void> advance() {
    if (armed.load() == nextEpoch(clock()))
      return {};
    due.store(true);
    return flush();
  }
  /// Sets how much of the work under way the next wake pauses. Before asking for a permit for work
  /// that does not pause, set another value than All.
  void setPausing(Pausing now) {
    if (pausing.load() != now) // no store otherwise: a waking thread would have to fetch it anew
      pausing.store(now);
  }
  Pausing whatPauses() const { return pausing.load(); }
  /// Whether work is told to pause now.
  bool isPausing() const { return mode.load() == TALLY_CONTROL_PAUSE; }
  /// When work was last told to pause.
  Nanoseconds pausedAt() const { return Nanoseconds(pausedSince.load()); }
  std::uint64_t pauses() const { return pauseCount.load(); }
  /// Ends a pause if no scope is open: all work goes on. Returns whether it ended the pause.
  Result<bool> settle() {
    tally_control_mode now = mode.load();
    if (now == TALLY_CONTROL_RUN || active.load() != 0 ||
        !mode.compare_exchange_strong(now, TALLY_CONTROL_RUN))
      return false;
    tally_control_mode told = TALLY_CONTROL_RUN;
    if (active.load() != 0) // restore the mode, unless the waking thread has set another
      mode.compare_exchange_strong(told, now);
    due.store(true);
    Result<void> written = flush();
    return written ? Result<bool>(true) : written.error();
  }
  /// Ends a pause although a scope is open: paused work goes on to the end of its blocks and
  /// leaves.
  Result<void> release() {
    mode.store(TALLY_CONTROL_LEAVE_AT_BLOCK_END);
    return advance();
  }

  /// Sets the trigger: the word in mapped memory for whose growth armed writes wait. Call it before
  /// the first arm(): without a trigger no write is armed.
  void setTrigger(std::atomic<std::uint64_t> *word) { trigger.store(word); }
  /// Puts the write of the next wake on the device, unless it is there already. A call that waits
  /// for the whole device waits for this write too; so call disarm() soon, and when no other work
  /// is on the device. After an error of the device no write is armed any more.
  Result<void> arm() {
    if (!trigger.load() || refused || due.load() || isArmed() || active.load() != 0 ||
        writing.test_and_set())
      return {};
    std::uint64_t next = epoch.load() + 1;
    armed.store(next);
    Result<void> put = write.whenTriggered(next, wordOf(next, requestMode.load()));
    if (!put) {
      refused = true;
      armed.store(0);
      if (epoch.load() >= next)
        due.store(true);
    }
    writing.clear();
    Result<void> written = flush(); // for a wake that came meanwhile
    return put ? written : put;
  }
  bool isArmed() const { return armed.load() > epoch.load(); }
  /// The epoch that is armed, or 0. For any thread.
  std::uint64_t armedEpoch() const {
    std::uint64_t next = armed.load();
    return next > epoch.load() ? next : 0;
  }
  /// Lets the armed write go: best-effort work on the device yields although no scope wakes. For
  /// any thread; makes no call of the device.
  void disarm() {
    // Several threads may call this at a time; one of them advances the epoch.
    for (std::uint64_t next = armed.load(); next > epoch.load();) {
      if (disarming.test_and_set())
        continue;
      if (next > epoch.load())
        advanceWithoutRequest(next);
      disarming.clear();
    }
  }
  /// Tells whether best-effort work may be on the device or ask for a permit; true at first.
  void setBusy(bool now) { busy.store(now); }
  /// Listens for some microseconds and makes a due write at once. Calls `pause` between two looks.
  template <class Pause> Result<void> listen(Pause pause) {
    listening.store(true);
    for (int looks = 0; looks < 32 && !due.load(); ++looks)
      pause();
    listening.store(false);
    return flush();
  }

  /// Counts a scope out. Returns whether it was the last scope. `at`: as for raise().
  Result<bool> withdraw(std::optional<Nanoseconds> at = std::nullopt) {
    endedAt.store((at ? *at : clock()).count());
#ifdef TALLY_PLANT_CLEARED_CONTROL_WORD
    if (active.load() == 1)
      if (Result<void> written = write(encodeControl({.epoch = 0})); !written)
        return written.error();
#endif
    return active.fetch_sub(1) == 1;
  }

  /// The epoch under which best-effort work may be issued now, if the policy lets it run.
  template <class Policy> std::optional<std::uint64_t> permit(const Policy &policy) const {
    std::uint64_t now = epoch.load(); // before the count: see Races
    return policy.decide(snapshot()).runBestEffort ? std::optional(now) : std::nullopt;
  }

  Snapshot snapshot() const {
    Snapshot now;
    now.highPriorityActive = active.load();
    std::int64_t ended = endedAt.load();
    now.now = clock();
    now.sinceHighPriorityEnded = ended == never ? Nanoseconds::max() : now.now - Nanoseconds(ended);
    // Between the rise of the count and the note of its time the time is unknown.
    if (std::optional<Nanoseconds> woken = lastWake(); woken && now.highPriorityActive != 0)
      now.activeFor = now.now - *woken;
    return now;
  }

  /// The time of the clock.
  Nanoseconds now() const { return clock(); }
  /// When the count last rose from 0; nothing if it never did.
  std::optional<Nanoseconds> lastWake() const {
    std::int64_t at = wokenAt.load();
    return at == never ? std::nullopt : std::optional(Nanoseconds(at));
  }

  std::uint64_t currentEpoch() const { return epoch.load(); }
  /// Number of times that best-effort work was asked to yield, without disarm().
  std::uint64_t requests() const { return epoch.load() - disarmed.load(); }
  /// A request to yield: the epoch that it began, and when it came.
  struct Request {
    std::uint64_t epoch = 0;
    Nanoseconds at{0};
  };
  /// The first request to which launches of `launchEpoch` yield; nothing while none has come,
  /// whether or not disarm() has had them yield. Knows the last 64 epochs only.
  std::optional<Request> requestAfter(std::uint64_t launchEpoch) const {
    std::uint64_t now = currentEpoch();
    for (std::uint64_t each = firstKnown(launchEpoch, now); each <= now; ++each)
      if (madeByDisarm[each % known].load() != each)
        return Request{each, Nanoseconds(raisedAt[each % known].load())};
    return std::nullopt;
  }
  /// When launches of `launchEpoch` were first asked to yield, by a request or disarm(); only while
  /// currentEpoch() is greater. Knows the last 64 epochs only; for an older one returns the oldest
  /// of these.
  Nanoseconds raisedAfter(std::uint64_t launchEpoch) const {
    return Nanoseconds(raisedAt[firstKnown(launchEpoch, currentEpoch()) % known].load());
  }

private:
  static constexpr std::int64_t never = INT64_MIN;
  static constexpr std::size_t known = 64; // epochs

  /// The oldest epoch after `launchEpoch` of which the word still knows the time.
  static std::uint64_t firstKnown(std::uint64_t launchEpoch, std::uint64_t now) {
    std::uint64_t oldest = now >= known ? now - known + 1 : 1;
    return std::max(launchEpoch + 1, oldest);
  }

  /// For one thread at a time.
  void advanceWithoutRequest(std::uint64_t next) {
    raisedAt[next % known].store(clock().count());
    madeByDisarm[next % known].store(next); // before the epoch, after which requestAfter() looks
    // Do not advance if a wake has done so meanwhile: no thread would write the epoch after it.
    if (std::uint64_t now = next - 1; epoch.compare_exchange_strong(now, next)) {
      disarmed.fetch_add(1);
      fire(next);
    } else {
      madeByDisarm[next % known].store(0);
    }
  }

  /// Returns the new epoch, if there is one.
  std::optional<std::uint64_t> askToYield(bool mayPause, Nanoseconds at) {
    Pausing now = mayPause ? pausing.load() : Pausing::None;
    if (now != Pausing::None) {
      pausedSince.store(at.count());
      pauseCount.fetch_add(1);
      mode.store(TALLY_CONTROL_PAUSE);
    } else {
      tally_control_mode paused = TALLY_CONTROL_PAUSE;
      mode.compare_exchange_strong(paused, TALLY_CONTROL_LEAVE_AT_BLOCK_END);
    }
    return now == Pausing::All ? std::nullopt : std::optional(nextEpoch(at));
  }

  static std::uint64_t wordOf(std::uint64_t epoch, tally_control_mode mode) {
    return encodeControl({.epoch = epoch, .mode = mode});
  }

  /// The mode to write. Paused work goes on under any mode but PAUSE.
  tally_control_mode modeToWrite() const {
    tally_control_mode now = mode.load();
    return now == TALLY_CONTROL_PAUSE ? now : std::max(now, requestMode.load());
  }

  /// Lets the armed write that waits for the epoch go.
  void fire(std::uint64_t now) {
    if (std::atomic<std::uint64_t> *word = trigger.load())
      for (std::uint64_t seen = word->load();
           seen < now && !word->compare_exchange_weak(seen, now);) {
      }
  }
  /// Advances the epoch and returns the new one.
  std::uint64_t nextEpoch(Nanoseconds at) {
    std::uint64_t now = epoch.load();
    do
      raisedAt[(now + 1) % known].store(at.count());
    while (!epoch.compare_exchange_weak(now, now + 1));
    fire(now + 1);
    return now + 1;
  }

  friend struct ControlWordTest;

  // Cache lines are separate by writer. A launch reads `due`, and must not have to fetch it anew
  // each time the dispatcher's thread looks. That thread reads `due` all the time, which must not
  // take from a waking thread the lines that it writes.
  static constexpr std::size_t line = 64;
  Write write;
  Clock clock;
  bool refused = false; ///< the device has refused to arm
  std::atomic<std::atomic<std::uint64_t> *> trigger{nullptr};
  std::atomic<tally_control_mode> requestMode{TALLY_CONTROL_RUN};
  // Written by threads that wake and by threads that close a scope.
  alignas(line) std::atomic<std::uint32_t> active{0};
  std::atomic<std::uint64_t> epoch{0};
  std::atomic<tally_control_mode> mode{TALLY_CONTROL_RUN};
  std::atomic<std::int64_t> endedAt{never}, wokenAt{never}, pausedSince{0};
  std::atomic<std::uint64_t> pauseCount{0};
  std::array<std::atomic<std::int64_t>, known> raisedAt{};
  alignas(line) std::atomic<bool> due{false};
  // Written by the dispatcher's thread: `listening` often, the other members now and then.
  alignas(line) std::atomic<bool> listening{false};
  alignas(line) std::atomic<Pausing> pausing{Pausing::None};
  std::atomic<bool> busy{true};
  /// The newest armed epoch; how many epochs disarm() has made.
  std::atomic<std::uint64_t> armed{0}, disarmed{0};
  std::array<std::atomic<std::uint64_t>, known> madeByDisarm{}; // its epochs, of the newest ones
  std::atomic_flag disarming;
  alignas(line) std::atomic_flag writing;
};

} // namespace tally::runtime

#endif
