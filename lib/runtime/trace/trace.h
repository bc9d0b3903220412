// Who ran when and who yielded, for a picture of it in Perfetto or chrome://tracing.
//
// Events go into a ring of a fixed number; the newest stay. All of it is seen from where the work
// is done anyway: the dispatcher's thread notes what it sends and what comes back, the monitor that
// high priority came to rest; when it woke the control word has noted for itself. So a launch of
// high priority does nothing more for it. Times are the clock's that does not go back
// (CLOCK_MONOTONIC), the same in all processes, so that files of several may be put together.
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

/// Why what paused went on.
enum class PauseEnd : std::uint8_t {
  Over,    ///< no scope was open any more
  Overdue, ///< nothing of the high-priority work was seen to happen for too long
  NoRoom,  ///< some of it may not fit beside what pauses
  Awaited, ///< some of it waits for best-effort work
  Closed   ///< the process is about to end
};

constexpr std::string_view nameOf(PauseEnd end) {
  constexpr std::array<std::string_view, 5> names = {"over", "overdue", "no room", "awaited",
                                                     "closed"};
  return names[static_cast<std::size_t>(end)];
}

struct TraceEvent {
  enum class Type : std::uint8_t {
    Wake,       ///< the control word was advanced: who runs is asked to yield; `value`: the epoch
    Stop,       ///< the same, by the policy and not by a request
    Idle,       ///< the last high-priority scope was closed
    Request,    ///< an explicit request; `name`: its own or the client's; `value`: missed deadlines
    Elsewhere,  ///< high priority of other processes was active
    Pause,      ///< what runs was told to pause, until it was told to go on; `value`: a PauseEnd
    NoPauses,   ///< from here on nothing is told to pause for `value` nanoseconds
    Turnaround, ///< from a request to yield until the last of what ran was seen gone
    Wait,       ///< a lane had work that might not go
    Batch,      ///< was under way on a lane; `value`: of how many things
    Work,       ///< one thing of a batch; its time is a part of the batch's
    Ahead       ///< `value` operations went to the device past the lanes; `lane`: of a stream
  };
  /// Of work: what it was sent as.
  enum class Way : std::uint8_t { Variant, NonPreemptible, Copy, Fill, Call, Put };

  Type type = Type::Wake;
  std::uint8_t lane = 0;
  Way way = Way::NonPreemptible;
  Kind kind{};             ///< of variants
  bool resumes = false;    ///< of variants: launched before, and had yielded
  bool yielded = false;    ///< of variants: left blocks to run
  bool isEstimate = false; ///< only the batch's time is measured
  std::uint32_t name = 0;  ///< as nameOf() gives it
  Nanoseconds start{0}, duration{0};
  std::uint64_t value = 0; ///< of work: blocks launched
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

  /// `path`: the file to be written; %p in it stands for the process's number. Fails where it
  /// cannot be written. `capacity`: events, between the two above.
  static Result<std::unique_ptr<Trace>> open(std::string_view path,
                                             std::size_t capacity = defaultCapacity);

  /// A number for a name; the same for the same. Beyond 65,536 names all others are one.
  std::uint32_t nameOf(std::string_view name);
  void add(const TraceEvent &event);

  /// What was added and is not in the ring any more.
  std::uint64_t lost() const;
  /// The ring's events, oldest first.
  std::vector<TraceEvent> events() const;
  /// Writes the file, whole or not at all: under another name, which then replaces it. In a forked
  /// child nothing.
  Result<void> write() const;
  const std::string &path() const { return file; }

private:
  Trace(std::string file, std::size_t capacity) : file(std::move(file)), ring(capacity) {}
  std::string text() const;

  /// `state`: 0: empty; `writing`; else a number that every event has for itself.
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
