// The application's streams: what the hooks know of each, and its class.
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

/// How a stream stands to the legacy default stream.
enum class StreamKind : std::uint8_t {
  Legacy,     ///< the legacy default stream of a device
  PerThread,  ///< the default stream of one thread
  Blocking,   ///< ordered with the legacy stream
  NonBlocking ///< not
};

/// One stream of the application. Lives as long as the process; after cudaStreamDestroy it is used
/// again for another one.
struct alignas(64) StreamState { // none shares a line of the cache with another's counts
  cudaStream_t handle = nullptr;
  const CudaApi *api = nullptr; ///< by which it may be queried
  StreamKind kind = StreamKind::Blocking;
  int device = 0;
  std::uint32_t uses = 0; ///< streams that it has been
  bool isOwn = false;     ///< none of the application's, but a lane's
  int priority = 0;       ///< CUDA's: the lower number is the higher priority
  std::atomic<bool> bestEffort{false};
  std::atomic<std::uint32_t> bestEffortClass{1}; ///< where it is that: 1, the highest, to 4
  std::atomic<std::uint64_t> launches{0};        ///< of kernels, passed through, but its owner's
  std::atomic<std::uint64_t> lastTicket{0};      ///< of what was last queued on it
  /// BestEffortQueue's own: which of its tracks, of which class; of which queue, if any.
  struct {
    const void *queue = nullptr;
    std::uint32_t bestEffortClass = 0;
    std::size_t track = 0;
  } place;
  std::atomic<runtime::HighStream *> high{nullptr};
  std::atomic<StreamAhead *> ahead{nullptr}; ///< RunAhead's own
  /// Where the stream itself cannot be asked whether it is idle (it belongs to a thread, or is
  /// destroyed): an event behind all that was put on it.
  std::atomic<cudaEvent_t> marker{nullptr};
  /// Of a thread's default stream, that thread's own: calls were made past the queue behind the
  /// marker.
  bool isUnmarked = false;
  /// The stream itself must not be asked any more, since it is being destroyed. Who asks counts
  /// itself in first (CallGate); who destroys says so here, then waits until nobody asks.
  std::atomic<bool> leaving{false};
  /// The dispatcher's: calls, and those on the legacy stream, that its launches here are behind.
  std::uint64_t callsSeen = 0, legacyCallsSeen = 0;
  bool destroyed = false; ///< guarded by the table's mutex
};

/// The priorities that applications may have: CUDA's, the lower number is the higher.
struct Priorities {
  int lowest = 0, highest = 0;

  /// All but the device's highest, which is the control stream's own where there are more than two.
  static cudaError_t ask(const CudaApi &api, Priorities &found);
  /// That of best-effort streams of the priority: one for each below the highest, as far as there
  /// are classes.
  std::uint32_t bestEffortClass(int priority) const;
};

/// Finds streams by handle. Thread-safe; what a thread used last is found without a lock.
class StreamTable {
public:
  /// `processIsBestEffort`: all streams are, whatever their priorities. `areRanked`: these say of
  /// which class a best-effort stream is.
  explicit StreamTable(bool processIsBestEffort, bool areRanked = true)
      : processIsBestEffort(processIsBestEffort), areRanked(areRanked) {
    for (std::atomic<std::uint64_t> &each : lives)
      each = firstGeneration();
  }

  StreamState &find(const CudaApi &api, cudaStream_t handle) {
    return isLast(handle) ? *threadState.last.state : findSlowly(api, handle);
  }
  /// Whether the stream is the one that the thread used last, and what it knows of that may be
  /// used.
  bool isLast(cudaStream_t handle) const {
    const KnownStream &last = threadState.last;
    return last.handle == handle && last.generation == generation.load();
  }
  /// What threads remember is not used any more: the table has changed, or what else they know.
  void forgetKnown() { generation.fetch_add(1); }

  /// A stream was created by the application. Returns whether there are best-effort streams now.
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
  /// Whether no other device is known to be used by the process.
  bool onlyDevice(int device) const { return (devicesUsed.load() & ~bitOf(device)) == 0; }

  /// How many streams the application has created.
  std::size_t count();
  /// Every stream that may have work of high priority.
  std::vector<StreamState *> all();
  /// Of the application's best-effort streams of a device, but default ones.
  std::set<std::uint32_t> bestEffortClasses(int device);
  /// Sets a stream's class; streams of a best-effort process stay so.
  void setClass(StreamState &state, bool bestEffort);
  /// Makes the stream best effort, and of that class.
  void setBestEffortClass(StreamState &state, std::uint32_t number);
  std::uint64_t launches();

private:
  struct OfThread {
    int device = 0;
    StreamState *state = nullptr;
    std::uint64_t life = 0;
  };
  /// No two tables ever have the same generations.
  static std::uint64_t firstGeneration() {
    static std::atomic<std::uint64_t> made{1};
    return made.fetch_add(1) << 32;
  }
  static thread_local std::vector<OfThread> ofThread; // its default streams

  std::atomic<std::uint64_t> &lifeOf(int device) {
    return lives[static_cast<std::size_t>(device) % lives.size()];
  }
  static std::uint64_t bitOf(int device) { return std::uint64_t{1} << (device & 63); }
  StreamState &findSlowly(const CudaApi &api, cudaStream_t handle);
  StreamState &defaultStream(const CudaApi &api, StreamKind kind, cudaStream_t handle);
  StreamState &add(const CudaApi &api, cudaStream_t handle, StreamKind kind, int priority);

  const bool processIsBestEffort, areRanked;
  std::atomic<std::uint64_t> devicesUsed{0}; ///< a bit each
  /// Grows with whatever makes a remembered stream invalid.
  std::atomic<std::uint64_t> generation{firstGeneration()};
  /// By device: changes when all of its streams are gone, those of threads too.
  std::array<std::atomic<std::uint64_t>, 64> lives;
  std::mutex mutex; // what follows
  std::deque<StreamState> states;
  std::unordered_map<cudaStream_t, StreamState *> byHandle;
  std::unordered_map<int, StreamState *> legacy; // by device
};

} // namespace tally::hooks

#endif
