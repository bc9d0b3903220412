// What an open runtime holds; the calls of runtime.h work on it.
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

/// What cannot be, or contradicts itself, is an error that says what is allowed.
Result<void> checkOptions(const RuntimeOptions &options);
/// What the options leave to the environment. Fails where that is wrong anywhere.
Result<void> addEnvironment(RuntimeOptions &options);

struct ModuleRecord {
  ModuleId id{};
  std::vector<bundle::Kernel> kernels;
  std::uint64_t hash = 0;
  std::map<std::string, std::uint64_t, std::less<>> found; ///< kernels' handles, by name
};

/// The numbers of best-effort clients, as policies see them: the smallest that is free, since those
/// above 63 are not steered. Thread-safe.
class ClientNumbers {
public:
  struct Taken {
    std::uint32_t number = 0;
    std::uint32_t generation = 0; ///< how many clients had it before
  };
  Taken take();
  void giveBack(std::uint32_t number);

private:
  struct Number {
    bool isTaken = false;
    std::uint32_t generation = 0; ///< of the next client
  };
  std::mutex mutex;
  std::vector<Number> numbers;
};

struct ClientRecord {
  Class clientClass = Class::High;
  std::string name;
  std::uint32_t traceName = 0;           ///< where there is a trace
  ClientNumbers::Taken bestEffortNumber; ///< of best-effort clients
  std::uint32_t bestEffortClass = 1;
  std::atomic<std::uint32_t> openRequests{0};
  std::atomic<std::uint32_t> streams{0}; ///< that were made and not destroyed
  RequestTimes requestTimes;             ///< where somebody wants to know
};

/// A stream of the application: exactly one of the three.
///
/// A thread may wait for all streams while another one destroys them: it holds the record, and has
/// counted itself in as waiting, so that what the device has for the stream stays as long.
struct StreamRecord {
  StreamRecord(Device &device, RequestScopeTracker *highPriority)
      : device(device), highPriority(highPriority) {}
  /// Errors of closing would be repeats: the device is going away.
  ~StreamRecord() { static_cast<void>(close()); }
  StreamRecord(const StreamRecord &) = delete;
  StreamRecord &operator=(const StreamRecord &) = delete;

  /// Gives back what the device has for it, where that was not done. Nothing is on the stream, or
  /// the device has failed. When this returns no thread asks the device about the stream.
  Result<void> close();

  Device &device;
  RequestScopeTracker *const highPriority; ///< where sharing is by tally
  ClientRecord *owner = nullptr;
  std::atomic<std::uint32_t> waiting{0};  ///< threads that wait for all streams
  std::atomic<bool> isClosed{false};      ///< is not waited for any more
  std::optional<StreamId> ofDevice;       ///< of its own: not of best effort by tally
  bool isAdopted = false;                 ///< that one is the program's
  HighStream *high = nullptr;             ///< high priority
  std::unique_ptr<LaneStream> bestEffort; ///< through the dispatcher
  struct Plain {                          ///< without tally: a stream of the device
    StreamId id{};
    bool isHigh = false;
    std::atomic<std::uint64_t> launched{0}, finished{0}; ///< of best-effort streams
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
    // Their errors were given to whoever synchronised, or nobody wanted them.
    static_cast<void>(waitForAll());
    if (arena)
      arena->stopWatching();
    // Before the streams and kernels that it knows, and the neighbours.
    dispatcher.reset();
    // What cannot be kept is measured again.
    if (profiles)
      static_cast<void>(profiles->save());
    // Who wants to hear of an error calls writeTrace().
    if (trace)
      static_cast<void>(trace->write());
  }

  /// Whether launches may be made that pause in place.
  bool pauses() const {
    return options.sharing == Sharing::Tally && device->info().threadsPerSm != 0 &&
           contains(options.kinds, Kind::Pause);
  }
  Result<void> initialise();
  Result<void> openTrace();
  /// All that the process has on the device ends, best-effort work by yielding.
  void quiesce();
  void noteAllocation(DevicePtr pointer, std::size_t bytes);
  std::optional<std::size_t> noteFree(DevicePtr pointer);
  bool timesRequests() const { return arena || trace || hasRanges; }
  void noteRequest(ClientRecord &client, Nanoseconds now);
  Result<void> checkControlStream(DevicePtr address, StreamId stream);
  /// Streams that are being destroyed too, until nothing is on them.
  Result<void> waitForAll();
  Result<void> synchronize(StreamRecord &stream);
  /// For who waits for all: whatever another thread does with the stream meanwhile.
  Result<void> waitFor(StreamRecord &stream);
  Result<StreamRecord *> findStream(Stream stream) const;
  std::string describe(Client client) const;
  Result<ClientRecord *> findClient(Client client) const;
  Result<ClientRecord *> findHighClient(Client client, const char *call) const;
  Result<void> openStream(StreamRecord &stream, const ClientRecord &owner);
  /// Its calls go straight to `stream.ofDevice`.
  Result<void> passThrough(StreamRecord &stream, bool isHigh);
  Result<Stream> addStream(std::shared_ptr<StreamRecord> stream, ClientRecord &owner);
  template <class Call> Result<void> pass(StreamRecord &stream, const Call &call);
  Result<void> enqueue(StreamRecord &stream, Operation operation);

  std::unique_ptr<Device> device;
  RuntimeOptions options;
  const bool hasRanges = rangesAreOn();
  std::unique_ptr<Trace> trace; ///< or none; before those that know it
  std::optional<DeviceControl> control;
  std::unique_ptr<RequestScopeTracker> highPriority;
  std::optional<ProfileStore> profiles;
  std::unique_ptr<Dispatcher> dispatcher;
  std::unique_ptr<ArenaLink> arena; ///< before those that it knows

  std::shared_ptr<void> termination; ///< while SIGTERM waits for this

  std::mutex memoryMutex;
  std::map<DevicePtr, std::size_t> allocations; ///< guarded by it; bytes
  MemoryStatus memory;                          ///< likewise
  std::mutex modulesMutex;                      ///< of what was found in modules
  HandleTable<ModuleRecord> modules;
  HandleTable<LoadedKernel> kernels;
  HandleTable<ClientRecord> clients;
  HandleTable<StreamRecord> streams;
  ClientNumbers clientNumbers;
  std::atomic<std::uint64_t> highPriorityLaunches{0};
  std::atomic<std::uint64_t> plainLaunched{0}, plainFinished{0}; ///< of best effort without tally
};

} // namespace tally::runtime

#endif
