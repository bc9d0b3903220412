// The state of an open runtime, on which the calls of runtime.h work.
#ifndef TALLY_LIB_RUNTIME_API_RUNTIME_STATE_H
#define TALLY_LIB_RUNTIME_API_RUNTIME_STATE_H

#include "api/termination.h"
#include "base/handle_table.h"
#include "base/ranges.h"
#include "dispatch/arena_link.h"
#include "dispatch/dispatcher.h"
#include "planning/loaded_kernel.h"
#include "planning/profile_store.h"
#include "planning/residency.h"
#include "requests/request_scope_tracker.h"
#include "requests/request_times.h"
#include "trace/trace.h"

#include "tally/runtime/runtime.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace tally::runtime {

/// Fails for options that are out of range or contradict each other; the error names the allowed
/// values.
Result<void> checkOptions(const RuntimeOptions &options);
/// Fills in options left to the environment. Fails for any wrong variable of the environment.
Result<void> addEnvironment(RuntimeOptions &options);

struct ModuleRecord {
  ModuleId id{};
  std::vector<bundle::Kernel> kernels;
  std::uint64_t hash = 0;
  std::map<std::string, std::uint64_t, std::less<>> found; ///< handles of kernels, by name
};

/// Numbers of best-effort clients, as policies see them. A client gets the smallest free number,
/// since policies do not steer numbers above 63. Thread-safe.
class ClientNumbers {
public:
  struct Taken {
    std::uint32_t number = 0;
    std::uint32_t generation = 0; ///< number of clients that had the number before
  };
  Taken take();
  void giveBack(std::uint32_t number);

private:
  struct Number {
    bool isTaken = false;
    std::uint32_t generation = 0; ///< generation of the next client
  };
  std::mutex mutex;
  std::vector<Number> numbers;
};

struct ClientRecord {
  Class clientClass = Class::High;
  std::string name;
  std::uint32_t traceName = 0;           ///< number of its name in the trace, if there is one
  ClientNumbers::Taken bestEffortNumber; ///< for best-effort clients
  std::uint32_t bestEffortClass = 1;
  std::atomic<std::uint32_t> openRequests{0};
  std::atomic<std::uint32_t> streams{0}; ///< number of streams made and not destroyed
  RequestTimes requestTimes;             ///< used if State::timesRequests()
};

/// A stream of the application: exactly one of `high`, `bestEffort` and `plain` is set.
///
/// A thread may wait for all streams while another thread destroys them. The waiting thread holds
/// the record and counts itself in `waiting`, so that the device's stream stays as long.
struct StreamRecord {
  StreamRecord(Device &device, RequestScopeTracker *highPriority)
      : device(device), highPriority(highPriority) {}
  /// Ignores errors of closing: the device is ending.
  ~StreamRecord() { static_cast<void>(close()); }
  StreamRecord(const StreamRecord &) = delete;
  StreamRecord &operator=(const StreamRecord &) = delete;

  /// Frees the device's resources of the stream, unless that was done. The stream must have no
  /// work, or the device must have failed. After the return no thread asks the device about the
  /// stream.
  Result<void> close();

  Device &device;
  RequestScopeTracker *const highPriority; ///< with Sharing::Tally
  ClientRecord *owner = nullptr;
  std::atomic<std::uint32_t> waiting{0};  ///< threads that wait for all streams
  std::atomic<bool> isClosed{false};      ///< waitForAll() ignores it
  std::optional<StreamId> ofDevice;       ///< the device's stream; none for `bestEffort`
  bool isAdopted = false;                 ///< `ofDevice` is the program's own stream
  HighStream *high = nullptr;             ///< set for high priority
  std::unique_ptr<LaneStream> bestEffort; ///< set for work through the dispatcher
  struct Plain {                          ///< without Sharing::Tally: a stream of the device
    StreamId id{};
    bool isHigh = false;
    std::atomic<std::uint64_t> launched{0}, finished{0}; ///< for best-effort streams
  };
  std::unique_ptr<Plain> plain;
};

class Runtime::State {
public:
  State(std::unique_ptr<Device> opened, RuntimeOptions options)
      : device(std::move(opened)), options(std::move(options)) {}
  ~State() {
    termination.reset();
    if (highPriority)
      while (Result<bool> ended = highPriority->endRequest()) {
        if (*ended)
          dispatcher->resume();
      }
    // Callers that synchronised have got the errors.
    static_cast<void>(waitForAll());
    if (arena)
      arena->stopWatching();
    // Before the streams, kernels and neighbours that the dispatcher uses.
    dispatcher.reset();
    // Measurements that cannot be saved are made again.
    if (profiles)
      static_cast<void>(profiles->save());
    // A program that wants to see an error calls writeTrace().
    if (trace)
      static_cast<void>(trace->write());
  }

  /// Whether launches may pause in place.
  bool pauses() const {
    return options.sharing == Sharing::Tally && device->info().threadsPerSm != 0 &&
           contains(options.kinds, Kind::Pause);
  }
  Result<void> initialise();
  Result<void> openTrace();
  /// Lets all work of the process on the device end; best-effort work yields.
  void quiesce();
  void noteAllocation(DevicePtr pointer, std::size_t bytes);
  std::optional<std::size_t> noteFree(DevicePtr pointer);
  bool timesRequests() const { return arena || trace || hasRanges; }
  void noteRequest(ClientRecord &client, Nanoseconds now);
  Result<void> checkControlStream(DevicePtr address, StreamId stream);
  /// Waits for all streams, even streams that are being destroyed, until they have no work.
  Result<void> waitForAll();
  Result<void> synchronize(StreamRecord &stream);
  /// Waits for a stream even if another thread destroys it meanwhile.
  Result<void> waitFor(StreamRecord &stream);
  Result<StreamRecord *> findStream(Stream stream) const;
  std::string describe(Client client) const;
  Result<ClientRecord *> findClient(Client client) const;
  Result<ClientRecord *> findHighClient(Client client, const char *call) const;
  Result<void> openStream(StreamRecord &stream, const ClientRecord &owner);
  /// Makes the stream's calls go straight to `stream.ofDevice`.
  Result<void> passThrough(StreamRecord &stream, bool isHigh);
  Result<Stream> addStream(std::shared_ptr<StreamRecord> stream, ClientRecord &owner);
  template <class Call> Result<void> pass(StreamRecord &stream, const Call &call);
  Result<void> enqueue(StreamRecord &stream, Operation &&operation);

  std::unique_ptr<Device> device;
  RuntimeOptions options;
  const bool hasRanges = rangesAreOn();
  std::unique_ptr<Trace> trace; ///< or nullptr; declared before the members that use it
  std::optional<DeviceControl> control;
  std::unique_ptr<RequestScopeTracker> highPriority;
  std::optional<ProfileStore> profiles;
  std::unique_ptr<Dispatcher> dispatcher;
  std::unique_ptr<ArenaLink> arena; ///< destroyed before the members that it uses

  std::shared_ptr<void> termination; ///< the registration of quiesce() for SIGTERM

  std::mutex memoryMutex;
  std::map<DevicePtr, std::size_t> allocations; ///< bytes by address; guarded by `memoryMutex`
  MemoryStatus memory;                          ///< guarded by `memoryMutex`
  std::mutex modulesMutex;                      ///< guards ModuleRecord::found
  HandleTable<ModuleRecord> modules;
  HandleTable<LoadedKernel> kernels;
  HandleTable<ClientRecord> clients;
  HandleTable<StreamRecord> streams;
  ClientNumbers clientNumbers;
  std::atomic<std::uint64_t> highPriorityLaunches{0};
  std::atomic<std::uint64_t> plainLaunched{0}, plainFinished{0}; ///< best effort by other sharing
};

} // namespace tally::runtime

#endif
