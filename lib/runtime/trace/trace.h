// Trace of the times at which work ran and yielded, for Perfetto or chrome://tracing.
//
// Events go into a ring of fixed size; the newest events stay. Threads record only their own
// actions and observations: the dispatcher's thread records the batches that it sends and that come
// back, and the monitor records when high priority came to rest; the control word keeps the time of
// a wake itself. So a trace costs a high-priority launch nothing. Times are of the monotonic clock
// (CLOCK_MONOTONIC), which is the same in all processes, so that files of several processes may be
// merged.
#ifndef TALLY_LIB_RUNTIME_TRACE_TRACE_H
#define TALLY_LIB_RUNTIME_TRACE_TRACE_H

#include "tally/bundle/verdict.h"
#include "tally/runtime/control_word.h"
#include "tally/support/result.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace tally::runtime {

/// Why paused work went on.
enum class PauseEnd : std::uint8_t {
  Over,    ///< no scope was open any more
  Overdue, ///< high-priority work showed no progress for too long
  NoRoom,  ///< some high-priority work may not fit beside paused work
  Awaited, ///< high-priority work waits for best-effort work
  Closed   ///< the process is about to end
};

constexpr std::string_view nameOf(PauseEnd end) {
  constexpr std::array<std::string_view, 5> names = {"over", "overdue", "no room", "awaited",
                                                     "closed"};
  return names[static_cast<std::size_t>(end)];
}

struct TraceEvent {
  enum class Type : std::uint8_t {
    Wake,    ///< the control word advanced: running work is asked to yield; `value`: the epoch
    Stop,    ///< the control word advanced because of the policy, not of a request
    Idle,    ///< the last high-priority scope was closed
    Request, ///< an explicit request; `name`: the request's or client's; `value`: missed deadlines
    Elsewhere,  ///< a higher class was active in another process
    Pause,      ///< running work was told to pause, until it was told to go on; `value`: a PauseEnd
    NoPauses,   ///< from here on no work is told to pause for `value` nanoseconds
    Turnaround, ///< from a request to yield until the host saw all running work gone
    Wait,       ///< a lane had work that was held back
    Batch,      ///< a batch was under way on a lane; `value`: its number of items
    Work,       ///< one item of a batch; its time is a part of the batch's
    Ahead ///< `value` operations went to the device without a lane; `lane`: the stream's number
  };
  /// For Work: the form in which it was sent.
  enum class Way : std::uint8_t { Variant, NonPreemptible, Copy, Fill, Call, Put };

  Type type = Type::Wake;
  std::uint8_t lane = 0;
  Way way = Way::NonPreemptible;
  Kind kind{};             ///< for variants
  bool resumes = false;    ///< for variants: a resumed launch
  bool yielded = false;    ///< for variants: left blocks to run
  bool isEstimate = false; ///< the time is a share of the batch's measured time
  std::uint32_t name = 0;  ///< a number of nameOf()
  Nanoseconds start{0}, duration{0};
  std::uint64_t value = 0; ///< for Work: number of blocks launched; see Type for others
};

constexpr std::string_view nameOf(TraceEvent::Way way) {
  constexpr std::array<std::string_view, 6> names = {
      "variant", "non-preemptible", "copy", "fill", "call", "put"};
  return names[static_cast<std::size_t>(way)];
}

/// Thread-safe. add() takes no lock and allocates nothing.
class Trace {
public:
  static constexpr std::size_t defaultCapacity = std::size_t{1} << 17, leastCapacity = 16,
                               mostCapacity = std::size_t{1} << 24;

  /// `path`: the file to write; %p in it stands for the process's number. Fails where the file
  /// cannot be written. `capacity`: number of events, from leastCapacity to mostCapacity.
  static Result<std::unique_ptr<Trace>> open(std::string_view path,
                                             std::size_t capacity = defaultCapacity);

  /// The number of a name, the same for equal names. Beyond 65,536 names all others share a number.
  std::uint32_t nameOf(std::string_view name);
  void add(const TraceEvent &event);

  /// Number of events that were added and are not in the ring.
  std::uint64_t lost() const;
  /// The ring's events, oldest first.
  std::vector<TraceEvent> events() const;
  /// Writes the file under another name, then renames it: all or nothing. Does nothing in a forked
  /// child.
  Result<void> write() const;
  const std::string &path() const { return file; }

private:
  Trace(std::string file, std::size_t capacity) : file(std::move(file)), ring(capacity) {}
  std::string text() const;

  /// `state`: 0: empty; `writing`; else the unique number of its event.
  struct Slot {
    std::atomic<std::uint64_t> state{0};
    std::array<std::atomic<std::uint64_t>, 4> words{};
  };
  static constexpr std::uint64_t writing = ~std::uint64_t{0};
  static std::array<std::uint64_t, 4> pack(const TraceEvent &event);
  static TraceEvent unpack(const std::array<std::uint64_t, 4> &words);
  static std::optional<TraceEvent> read(const Slot &slot);

  const std::string file;
  const pid_t process = currentProcess();
  static pid_t currentProcess();
  std::vector<Slot> ring;
  std::atomic<std::uint64_t> added{0}, collided{0};
  mutable std::mutex namesMutex;
  std::map<std::string, std::uint32_t, std::less<>> numbers;
  std::vector<std::string> names{std::string()};
};

} // namespace tally::runtime

#endif
