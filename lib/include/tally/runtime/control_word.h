// The control word from the host's side: who asks best-effort work to yield, and under which epoch
// it may be issued.
//
// raise() counts a high-priority scope in; the one that wakes from idle advances the epoch, which
// then has to be written, with no allocation. A write is a call of the driver's, of several
// microseconds where the thread made none for a while; so the dispatcher's thread makes it while it
// listens, beside the launch that woke, and nobody does while nothing best-effort is on the device.
// Where the device can wait, that thread has put the write of the next epoch there ahead of time,
// behind a wait for a word in mapped memory, the trigger: a wake then is a store, which takes no
// call and does not contend with the launch that woke (arm()).
//
// withdraw() counts the scope out and touches nothing else: what was asked to yield stays asked for
// ever, and what is issued afterwards carries the new epoch.
//
// Races. Writes are made by one thread at a time, each of the newest epoch, so they are issued in
// the order of epochs; one that was overtaken is left out, since whatever yields to it yields to
// the newer one too. Who leaves a write to the listener stores it, then sees that somebody listens;
// the listener says that it no longer does, then looks for one: so one of the two makes it. In the
// same way a wake that finds nothing on the device has advanced the epoch before it looked, and who
// sends something says so before it asks for the epoch. An armed write is published before it is
// put on the stream, and put there between the others: a wake that sees it leaves the write to it,
// one that does not makes its own, which lets what is armed go first; and because the trigger never
// goes back, what is put there too late does not wait. permit() reads the epoch before the count:
// if a wake comes between the two it sees the count; if it comes later the permit carries the old
// epoch and the launch yields when the write lands. A permit under the new epoch while its wake is
// still in the count cannot happen.
//
// Pauses. A request that wakes says PAUSE instead, under the epoch that there is, while all that is
// under way pauses (Pausing::All); where only some of it does, it says so under the next epoch.
// Nothing is left over by the former, so its end may say RUN. Who sends something that does not
// pause says so first (setPausing), and asks for its permit then; who wakes has counted itself in
// before it looks; so one of the two sees the other, and what does not pause never goes on beside
// a request that only paused. The end is told by the thread that issues (settle): it sees the count
// at 0, says RUN, and looks again; who wakes meanwhile has counted itself in first.
//
// A launch may reach the device before the write of its own epoch
// does: blocks yield only to a greater one.
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

/// What of the best-effort work under way pauses when it is told to.
enum class Pausing : std::uint8_t { None, Some, All };

/// The time that the runtime measures with.
struct SteadyClock {
  Nanoseconds operator()() const { return std::chrono::steady_clock::now().time_since_epoch(); }
};

/// The one owner of a context's control word. `Write` is called as `Result<void>(std::uint64_t)` to
/// store the word in device memory; calls are ordered as they are made. `Clock` gives nanoseconds
/// that never go back. Thread-safe.
template <class Write, class Clock = SteadyClock> class ControlWord {
public:
  explicit ControlWord(Write write, Clock clock = {})
      : write(std::move(write)), clock(std::move(clock)) {}

  /// The word that device memory holds before the first raise().
  static constexpr std::uint64_t initialWord() { return encodeControl({}); }

  /// For who is about to call raise(): fetches what that writes and reads, which other threads had
  /// last, all at once.
  void fetchForRaise() const {
    std::uint64_t next = epoch.load(std::memory_order_relaxed) + 1;
    __builtin_prefetch(&active, 1);
    __builtin_prefetch(&raisedAt[next % raisedAt.size()], 1);
    __builtin_prefetch(&armed);
    __builtin_prefetch(&due);
    if (const std::atomic<std::uint64_t> *word = trigger.load(std::memory_order_relaxed))
      __builtin_prefetch(word, 1);
  }

  /// Counts a high-priority scope in. Where it wakes from idle, best-effort work is asked to yield:
  /// at once, or by the thread that listens; then the caller should call flush() behind whatever it
  /// has to do first. When a write fails here, the scope is not counted. `mayPause`: not for what
  /// runs elsewhere, in time slices perhaps, which nobody can have who naps. `at`: what the clock
  /// says, from who has just looked.
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
    // What is armed says RUN.
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

  /// The same for who has no call to make first: returns when the write was made. The thread that
  /// listens makes it within a microsecond, but the system may have taken its core away.
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

  /// For who has woken and is about to make a call of the driver's: returns when the listener has
  /// begun the write that raise() left to it, within a microsecond or so in any case. The two take
  /// turns in the driver, and the write is the shorter one, which others wait for.
  void letWriteGoFirst() const {
    constexpr Nanoseconds listenersTime{1000};
    if (!due.load())
      return;
    for (Nanoseconds end = SteadyClock{}() + listenersTime; due.load() && SteadyClock{}() < end;) {
    }
  }

  /// Makes the write that is due, if one is and no other thread is making it.
  Result<void> flush() {
    while (due.load() && !writing.test_and_set()) {
      due.store(false);
      disarm(); // it would come behind what waits
      Result<void> written = write(wordOf(epoch.load(), modeToWrite()));
      writing.clear();
      if (!written)
        return written;
    }
    return {};
  }

  /// Whether a request to yield is left to be written by whoever comes to it.
  bool isDue() const { return due.load(); }
  /// Whether no request to yield is left to be written.
  bool isTold() const { return !isDue() && !writing.test(); }

  /// The mode that requests are written with where nothing pauses: CHECKPOINT where what runs can
  /// stop inside of a block. Kinds that cannot act on the epoch alone. At any time: a request that
  /// was written before is met at the blocks' ends.
  void setRequestMode(tally_control_mode asked) { requestMode.store(asked); }

  // For the one thread that issues best-effort work.

  /// Asks all best-effort work that was issued to yield, though no scope wakes: what the policy let
  /// run has to go.
  Result<void> advance() {
    if (armed.load() == nextEpoch(clock()))
      return {};
    due.store(true);
    return flush();
  }
  /// What a wake is to say from here on. Before a permit is asked for under which something goes
  /// that does not pause: not All.
  void setPausing(Pausing now) {
    if (pausing.load() != now) // else who wakes need not fetch it anew
      pausing.store(now);
  }
  Pausing whatPauses() const { return pausing.load(); }
  /// Whether what pauses is told to.
  bool isPausing() const { return mode.load() == TALLY_CONTROL_PAUSE; }
  /// When it was told to last.
  Nanoseconds pausedAt() const { return Nanoseconds(pausedSince.load()); }
  std::uint64_t pauses() const { return pauseCount.load(); }
  /// Ends a pause: with no scope open all goes on. Returns whether it did.
  Result<bool> settle() {
    tally_control_mode now = mode.load();
    if (now == TALLY_CONTROL_RUN || active.load() != 0 ||
        !mode.compare_exchange_strong(now, TALLY_CONTROL_RUN))
      return false;
    tally_control_mode told = TALLY_CONTROL_RUN;
    if (active.load() != 0) // as it was, unless whoever woke has said otherwise
      mode.compare_exchange_strong(told, now);
    due.store(true);
    Result<void> written = flush();
    return written ? Result<bool>(true) : written.error();
  }
  /// Ends a pause though a scope is open: what pauses goes on to the end of its blocks and leaves.
  Result<void> release() {
    mode.store(TALLY_CONTROL_LEAVE_AT_BLOCK_END);
    return advance();
  }

  /// The word in mapped memory whose growth the writes wait for that arm() puts on the device. At
  /// any time before the first arm(): nothing is armed without it.
  void setTrigger(std::atomic<std::uint64_t> *word) { trigger.store(word); }
  /// Puts the write of the next wake on the device, unless it is there. Whoever waits for all of
  /// the device waits for that too, so not for long, and not while nothing else is on it: disarm().
  /// On an error of the device nothing is armed any more.
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
    Result<void> written = flush(); // of a wake that came meanwhile
    return put ? written : put;
  }
  bool isArmed() const { return armed.load() > epoch.load(); }
  /// The epoch that is armed, or 0. By any thread.
  std::uint64_t armedEpoch() const {
    std::uint64_t next = armed.load();
    return next > epoch.load() ? next : 0;
  }
  /// Lets go what waits on the device: best-effort work that is there yields, though no scope
  /// wakes. By any thread; it makes no call of the device's.
  void disarm() {
    std::uint64_t next = armed.load();
    if (next <= epoch.load())
      return;
    raisedAt[next % raisedAt.size()].store(clock().count());
    // Not where a wake has come to it meanwhile: nobody would write the epoch behind that.
    if (std::uint64_t now = next - 1; epoch.compare_exchange_strong(now, next)) {
      disarmed.fetch_add(1);
      fire(next);
    }
  }
  /// Whether it may have something on the device, or ask for a permit to send it; true at first.
  void setBusy(bool now) { busy.store(now); }
  /// For some microseconds makes what is due as soon as it is. `pause` is called between looks.
  template <class Pause> Result<void> listen(Pause pause) {
    listening.store(true);
    for (int looks = 0; looks < 32 && !due.load(); ++looks)
      pause();
    listening.store(false);
    return flush();
  }

  /// Counts a scope out. Returns whether it was the last one. `at`: as above.
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
    std::uint64_t now = epoch.load(); // before the count: see above
    return policy.decide(snapshot()).runBestEffort ? std::optional(now) : std::nullopt;
  }

  Snapshot snapshot() const {
    Snapshot now;
    now.highPriorityActive = active.load();
    std::int64_t ended = endedAt.load();
    now.now = clock();
    now.sinceHighPriorityEnded = ended == never ? Nanoseconds::max() : now.now - Nanoseconds(ended);
    // Between the count's rise and the note of its time there is no time yet.
    if (std::optional<Nanoseconds> woken = lastWake(); woken && now.highPriorityActive != 0)
      now.activeFor = now.now - *woken;
    return now;
  }

  /// By the clock.
  Nanoseconds now() const { return clock(); }
  /// When the count last rose from 0; nothing if it never did.
  std::optional<Nanoseconds> lastWake() const {
    std::int64_t at = wokenAt.load();
    return at == never ? std::nullopt : std::optional(Nanoseconds(at));
  }

  std::uint64_t currentEpoch() const { return epoch.load(); }
  /// How often best-effort work was asked to yield for somebody.
  std::uint64_t requests() const { return epoch.load() - disarmed.load(); }
  /// When the first request came that launches of `launchEpoch` yield to; only while currentEpoch()
  /// is greater. Of the last 64 requests only: further back, the oldest of these.
  Nanoseconds raisedAfter(std::uint64_t launchEpoch) const {
    std::uint64_t now = currentEpoch();
    std::uint64_t first = launchEpoch + 1;
    if (now - first >= raisedAt.size())
      first = now - raisedAt.size() + 1;
    return Nanoseconds(raisedAt[first % raisedAt.size()].load());
  }

private:
  static constexpr std::int64_t never = INT64_MIN;

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

  /// What pauses goes on under any mode but PAUSE.
  tally_control_mode modeToWrite() const {
    tally_control_mode now = mode.load();
    return now == TALLY_CONTROL_PAUSE ? now : std::max(now, requestMode.load());
  }

  /// Lets go the write that waits for the epoch.
  void fire(std::uint64_t now) {
    if (std::atomic<std::uint64_t> *word = trigger.load())
      for (std::uint64_t seen = word->load();
           seen < now && !word->compare_exchange_weak(seen, now);) {
      }
  }
  /// Returns the new one.
  std::uint64_t nextEpoch(Nanoseconds at) {
    std::uint64_t now = epoch.load();
    do
      raisedAt[(now + 1) % raisedAt.size()].store(at.count());
    while (!epoch.compare_exchange_weak(now, now + 1));
    fire(now + 1);
    return now + 1;
  }

  friend struct ControlWordTest;

  // Apart by who writes them: a launch reads `due`, and must not have to fetch it anew because the
  // dispatcher's thread has looked again; and that thread looks at `due` all the time, which must
  // not take from who wakes the lines that it writes.
  static constexpr std::size_t line = 64;
  Write write;
  Clock clock;
  bool refused = false; ///< to arm
  std::atomic<std::atomic<std::uint64_t> *> trigger{nullptr};
  std::atomic<tally_control_mode> requestMode{TALLY_CONTROL_RUN};
  // Who wakes, and who counts out.
  alignas(line) std::atomic<std::uint32_t> active{0};
  std::atomic<std::uint64_t> epoch{0};
  std::atomic<tally_control_mode> mode{TALLY_CONTROL_RUN};
  std::atomic<std::int64_t> endedAt{never}, wokenAt{never}, pausedSince{0};
  std::atomic<std::uint64_t> pauseCount{0};
  std::array<std::atomic<std::int64_t>, 64> raisedAt{};
  alignas(line) std::atomic<bool> due{false};
  // The dispatcher, again and again; and it now and then.
  alignas(line) std::atomic<bool> listening{false};
  alignas(line) std::atomic<Pausing> pausing{Pausing::None};
  std::atomic<bool> busy{true};
  std::atomic<std::uint64_t> armed{0}, disarmed{0}; ///< the newest epoch whose write was armed
  alignas(line) std::atomic_flag writing;
};

} // namespace tally::runtime

#endif
