// The application's streams: the hooks' record of each, and its class.
#ifndef TALLY_LIB_HOOKS_STATE_STREAMS_H
#define TALLY_LIB_HOOKS_STATE_STREAMS_H

#include "requests/request_scope_tracker.h"
#include "state/thread_state.h"
#include "tables/cuda_api.h"

#include "tally/policy/policy.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <set>
#include <unordered_map>
#include <vector>

namespace tally::hooks {

class StreamAhead;

/// The order between a stream and the legacy default stream.
enum class StreamKind : std::uint8_t {
  Legacy,     ///< the legacy default stream of a device
  PerThread,  ///< the default stream of one thread
  Blocking,   ///< ordered with the legacy stream
  NonBlocking ///< not ordered with the legacy stream
};

/// One stream of the application. Lives as long as the process; after cudaStreamDestroy the record
/// is used again for another stream.
struct alignas(64) StreamState { // own cache lines: no stream shares one with another's counts
  cudaStream_t handle = nullptr;
  const CudaApi *api = nullptr; ///< queries of the stream go through this
  StreamKind kind = StreamKind::Blocking;
  int device = 0;
  std::uint32_t uses = 0; ///< number of streams that have used this record
  bool isOwn = false;     ///< a lane's stream, not the application's
  int priority = 0;       ///< CUDA's: the lower number is the higher priority
  std::atomic<bool> bestEffort{false};
  std::atomic<std::uint32_t> bestEffortClass{1}; ///< for best-effort streams: 1, the highest, to 4
  std::atomic<StreamAhead *> ahead{nullptr};     ///< for RunAhead
  std::atomic<std::uint64_t> launches{0};        ///< launches passed through, without the owner's
  std::atomic<std::uint64_t> lastTicket{0}; ///< ticket of the last operation queued on the stream
  /// For BestEffortQueue: the stream's track, the track's class, and the queue, if any.
  struct {
    const void *queue = nullptr;
    std::uint32_t bestEffortClass = 0;
    std::size_t track = 0;
  } place;
  std::atomic<runtime::HighStream *> high{nullptr};
  /// Where the stream cannot be queried whether it is idle (it belongs to a thread, or is
  /// destroyed): an event behind all work on the stream.
  std::atomic<cudaEvent_t> marker{nullptr};
  /// For a thread's default stream, used by that thread alone: calls were made without the queue
  /// behind the marker.
  bool isUnmarked = false;
  /// The stream must not be queried any more, since it is being destroyed. A querying thread counts
  /// itself in first (CallGate). The destroying thread sets this, then waits until no thread
  /// queries.
  std::atomic<bool> leaving{false};
  /// For the dispatcher: the calls on this stream, and on the legacy stream, that its launches here
  /// are behind.
  std::uint64_t callsSeen = 0, legacyCallsSeen = 0;
  /// For the dispatcher: a lane is putting work on this stream of the application.
  bool getsLaneWork = false;
  bool destroyed = false; ///< guarded by the table's mutex
};

/// The priorities that applications may have: CUDA's, the lower number is the higher.
struct Priorities {
  int lowest = 0, highest = 0;

  /// All but the device's highest, which is the control stream's own where there are more than two.
  static cudaError_t ask(const CudaApi &api, Priorities &found);
  /// The class of best-effort streams of that priority: one class for each priority below the
  /// highest, as far as there are classes.
  std::uint32_t bestEffortClass(int priority) const;
};

/// Finds streams by handle. Thread-safe; a thread's last stream is found without a lock.
class StreamTable {
public:
  /// `processIsBestEffort`: all streams are best effort, whatever their priorities. `areRanked`:
  /// the priority gives the class of a best-effort stream.
  explicit StreamTable(bool processIsBestEffort, bool areRanked = true)
      : processIsBestEffort(processIsBestEffort), areRanked(areRanked) {
    for (std::atomic<std::uint64_t> &each : lives)
      each = firstGeneration();
  }

  StreamState &find(const CudaApi &api, cudaStream_t handle) {
    return isLast(handle) ? *threadState.last.state : findSlowly(api, handle);
  }
  /// Whether the stream is the thread's last one, and the thread's record of it is still valid.
  bool isLast(cudaStream_t handle) const {
    const KnownStream &last = threadState.last;
    return last.handle == handle && last.generation == generation.load();
  }
  /// Makes the records of all threads invalid: the table has changed, or another fact in those
  /// records.
  void forgetKnown() { generation.fetch_add(1); }

  /// The application has created a stream. Returns whether there are best-effort streams now.
  bool created(const CudaApi &api, cudaStream_t handle, unsigned flags, int priority);
  /// The stream is about to be destroyed; `state` stays until it is idle.
  void destroyed(StreamState &state);
  /// All streams of the device are gone (cudaDeviceReset).
  void clear(int device);
  /// The calling thread uses another device.
  void deviceChanged(int now) {
    threadState.last = {};
    devicesUsed.fetch_or(bitOf(now));
  }
  /// The calling thread may use another device: a library has made another context current.
  void contextChanged() {
    const StreamState *last = threadState.last.state;
    if (last && (last->kind == StreamKind::Legacy || last->kind == StreamKind::PerThread))
      threadState.last = {};
  }
  /// Whether the process is not known to use any other device.
  bool onlyDevice(int device) const { return (devicesUsed.load() & ~bitOf(device)) == 0; }

  /// Number of streams that the application has created.
  std::size_t count();
  /// All streams that may have high-priority work.
  std::vector<StreamState *> all();
  /// The classes of the application's best-effort streams of a device, without default streams.
  std::set<std::uint32_t> bestEffortClasses(int device);
  /// Sets a stream's class; in a best-effort process all streams stay best effort.
  void setClass(StreamState &state, bool bestEffort);
  /// Makes the stream best effort, of class `number`.
  void setBestEffortClass(StreamState &state, std::uint32_t number);
  std::uint64_t launches();

private:
  struct OfThread {
    int device = 0;
    StreamState *state = nullptr;
    std::uint64_t life = 0;
  };
  /// Two tables never have the same generation.
  static std::uint64_t firstGeneration() {
    static std::atomic<std::uint64_t> made{1};
    return made.fetch_add(1) << 32;
  }
  static thread_local std::vector<OfThread> ofThread; // the default streams of the thread

  std::atomic<std::uint64_t> &lifeOf(int device) {
    return lives[static_cast<std::size_t>(device) % lives.size()];
  }
  static std::uint64_t bitOf(int device) { return std::uint64_t{1} << (device & 63); }
  StreamState &findSlowly(const CudaApi &api, cudaStream_t handle);
  StreamState &defaultStream(const CudaApi &api, StreamKind kind, cudaStream_t handle);
  StreamState &add(const CudaApi &api, cudaStream_t handle, StreamKind kind, int priority);

  const bool processIsBestEffort, areRanked;
  std::atomic<std::uint64_t> devicesUsed{0}; ///< one bit each
  /// Grows with each change that makes a remembered stream invalid.
  std::atomic<std::uint64_t> generation{firstGeneration()};
  /// Per device: changes when all streams of the device are gone, including default streams of
  /// threads.
  std::array<std::atomic<std::uint64_t>, 64> lives;
  std::mutex mutex; // guards the members below
  std::deque<StreamState> states;
  std::unordered_map<cudaStream_t, StreamState *> byHandle;
  std::unordered_map<int, StreamState *> legacy; // by device
};

} // namespace tally::hooks

#endif
