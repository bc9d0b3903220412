// What an open runtime holds; the calls of runtime.h work on it.
#ifndef TALLY_LIB_RUNTIME_RUNTIME_STATE_H
#define TALLY_LIB_RUNTIME_RUNTIME_STATE_H

#include "arena_link.h"
#include "dispatcher.h"
#include "high_priority.h"
#include "loaded_kernel.h"
#include "profile_store.h"
#include "ranges.h"
#include "request_times.h"
#include "residency.h"
#include "stable_table.h"
#include "termination.h"
#include "trace.h"

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
  std::map<std::string, std::uint64_t, std::less<>> found; ///< kernels' numbers, by name
};

struct ClientRecord {
  Class clientClass = Class::High;
  std::string name;
  std::uint32_t traceName = 0;        ///< where there is a trace
  std::uint32_t bestEffortNumber = 0; ///< as policies number them
  std::uint32_t bestEffortClass = 1;
  std::atomic<std::uint32_t> openRequests{0};
  RequestTimes requestTimes; ///< where somebody wants to know
};

/// A stream of the application: exactly one of the three.
struct StreamRecord {
  HighStream *high = nullptr;             ///< high priority
  std::unique_ptr<LaneStream> bestEffort; ///< through the dispatcher
  struct Plain {                          ///< best effort without tally: a stream of the device
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
  Result<void> waitForAll();
  Result<void> synchronize(StreamRecord &stream);
  Result<StreamRecord *> findStream(Stream stream) const;
  Result<ClientRecord *> findClient(Client client) const;
  Result<ClientRecord *> findHighClient(Client client, const char *call) const;
  Result<std::unique_ptr<StreamRecord>> makeStream(const ClientRecord &owner);
  template <class Call> Result<void> pass(StreamRecord &stream, const Call &call);
  Result<void> enqueue(StreamRecord &stream, Operation operation);

  std::unique_ptr<Device> device;
  RuntimeOptions options;
  const bool hasRanges = rangesAreOn();
  std::unique_ptr<Trace> trace; ///< or none; before those that know it
  std::optional<DeviceControl> control;
  std::unique_ptr<HighPriority> highPriority;
  std::optional<ProfileStore> profiles;
  std::unique_ptr<Dispatcher> dispatcher;
  std::unique_ptr<ArenaLink> arena; ///< before those that it knows

  std::shared_ptr<void> termination; ///< while SIGTERM waits for this

  std::mutex memoryMutex;
  std::map<DevicePtr, std::size_t> allocations; ///< guarded by it; bytes
  MemoryStatus memory;                          ///< likewise
  std::mutex modulesMutex;
  std::vector<ModuleRecord> modules;
  StableTable<LoadedKernel> kernels;
  StableTable<ClientRecord> clients;
  StableTable<StreamRecord> streams;
  std::atomic<std::uint64_t> highPriorityLaunches{0};
  std::atomic<std::uint32_t> bestEffortClients{0};
};

} // namespace tally::runtime

#endif
