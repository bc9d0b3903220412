// The device that best-effort work runs on, as the runtime's parts see it: implemented with the
// table of CUDA runtime calls, in the application's own context.
#ifndef TALLY_LIB_HOOKS_WORK_API_DEVICE_H
#define TALLY_LIB_HOOKS_WORK_API_DEVICE_H

#include "device/driver_environment.h"
#include "device/green_context.h"
#include "state/api_calls.h"
#include "state/call_gate.h"
#include "state/captures.h"
#include "state/own_streams.h"
#include "state/registry.h"
#include "state/settings.h"
#include "state/streams.h"
#include "tables/cuda_api.h"
#include "work/control_signal.h"

#include "tally/runtime/device.h"

#include <atomic>
#include <deque>
#include <mutex>

namespace tally::hooks {

/// One entry of a module: the user's kernel or a variant's entry.
struct FunctionEntry {
  const CudaApi *api = nullptr;
  const void *address = nullptr;
  const KernelRecord *record = nullptr;
};

// The ids of an ApiDevice's streams, modules and functions.

inline runtime::StreamId idOf(StreamState &state) {
  return static_cast<runtime::StreamId>(reinterpret_cast<std::uint64_t>(&state));
}
inline runtime::ModuleId idOf(KernelRecord &record) {
  return static_cast<runtime::ModuleId>(reinterpret_cast<std::uint64_t>(&record));
}
inline StreamState &stateOf(runtime::StreamId id) {
  return *reinterpret_cast<StreamState *>(static_cast<std::uint64_t>(id));
}
inline const FunctionEntry &entryOf(runtime::FunctionId id) {
  return *reinterpret_cast<const FunctionEntry *>(static_cast<std::uint64_t>(id));
}

/// Counts calls that have put work on the application's streams without the queue: queued
/// operations have to come behind that work. Thread-safe.
class PassedCalls {
public:
  void note(const StreamState &stream) {
    if (stream.kind == StreamKind::Legacy)
      legacy.fetch_add(1);
    all.fetch_add(1);
  }
  std::uint64_t sum() const { return all.load(); }
  std::uint64_t onLegacy() const { return legacy.load(); }
  /// Whether there may be calls that waits for the stream do not cover yet.
  bool areNewOn(const StreamState &stream) const { return stream.callsSeen != all.load(); }
  /// Whether the legacy stream got work since the stream last recorded an event. Only a thread can
  /// record an event on its own default stream, which comes behind the legacy stream.
  bool areAheadOf(const StreamState &stream) const {
    return stream.kind == StreamKind::PerThread && stream.legacyCallsSeen != legacy.load();
  }

private:
  std::atomic<std::uint64_t> all{0}, legacy{0};
};

/// Whether the process is a client of MPS.
bool isUnderMps();

/// Function ids are FunctionEntry*, module ids KernelRecord*, stream ids StreamState*.
class ApiDevice final : public runtime::StreamDevice {
public:
  ApiDevice(const CudaApi &api, Captures &captures) : api(api), captures(captures) {}

  /// Takes the calling thread's device, and its facts.
  Result<void> open();
  /// Called once there is best-effort work: allocates the control word, which then holds
  /// `controlWord`, and makes the stream that writes it. Best-effort work that starts from then on
  /// yields to every later request, since it carries the epoch of its start.
  /// `isOneClass`: all work of the process is best effort.
  Result<void> openControl(std::uint64_t controlWord, bool isOneClass);
  int number() const { return device; }
  /// The device's CUcontext; nullptr where there is no driver to ask.
  void *context() const { return driverContext; }
  runtime::DevicePtr controlAddress() const { return signal.address(); }

  const runtime::DeviceInfo &info() const override { return facts; }
  /// The record's own entry or one of its variants.
  Result<runtime::FunctionId> function(runtime::ModuleId record, std::string_view entry) override;
  Result<runtime::FunctionAttributes> attributes(runtime::FunctionId function) override;
  Result<std::uint32_t> residentBlocksPerSm(runtime::FunctionId function, Dim3 block,
                                            std::uint32_t dynamicSharedBytes) override;
  /// On stream 0 the control stream writes the control word; before openControl() nothing is
  /// written, since no kernel would read it. Does not wait.
  Result<void> writeValue(runtime::StreamId stream, runtime::DevicePtr to,
                          std::uint64_t value) override;
  std::atomic<std::uint64_t> *trigger() override { return signal.trigger(); }
  Result<void> writeValueWhen(runtime::StreamId stream, std::uint64_t reached,
                              runtime::DevicePtr to, std::uint64_t value) override;
  bool mayWait() const override {
    return operations.batch && (signal.isApart() || areStreamsApart());
  }
  bool areStreamsApart() const override {
    return streamCount.load(std::memory_order_relaxed) < mostStreams;
  }
  Result<void> waitForWords(runtime::StreamId stream,
                            std::span<const runtime::WordWait> words) override;
  bool hasWordWaits() const override { return operations.wordWait; }
  bool mayWaitForWords() const override {
    // Under MPS two streams of a process may wait (an H200, 4 connections): two lanes. Where all
    // work of the process is best effort, the streams that these waits delay are not needed to end
    // the waits.
    bool areWaitsFew = isOneClassUnderMps && ownStreams.size() <= 4;
    return operations.wordWait && waitersForDevice.load() == 0 &&
           (areStreamsApart() || areWaitsFew);
  }
  /// While an object of this class lives, no lane's stream begins to wait. Its thread makes a call
  /// that waits for the whole device, and may hold a driver lock that the thread which ends the
  /// streams' waits needs. Make it before waiting for queued operations.
  class WaitForDevice {
  public:
    explicit WaitForDevice(ApiDevice &device) : device(device) {
      device.waitersForDevice.fetch_add(1);
    }
    ~WaitForDevice() { device.waitersForDevice.fetch_sub(1); }
    WaitForDevice(const WaitForDevice &) = delete;
    WaitForDevice &operator=(const WaitForDevice &) = delete;

  private:
    ApiDevice &device;
  };
  /// Sets how many streams the application has now.
  void setStreamCount(std::size_t now) { streamCount = now; }
  /// While a capture is open: false. An application's stream that cannot be queried (its context
  /// has failed) is idle, so that work that waits for it gets the failure itself. A stream of
  /// createStream() returns its error.
  Result<bool> isIdle(runtime::StreamId stream) override;
  Result<void> synchronize(runtime::StreamId stream) override;

  Result<runtime::DevicePtr> allocate(std::size_t bytes) override;
  Result<void> free(runtime::DevicePtr pointer) override;
  Result<runtime::MappedMemory> allocateMapped(std::size_t bytes) override;
  Result<runtime::StreamId> createStream(runtime::StreamPriority priority) override;
  /// Works where the driver has green contexts.
  Result<runtime::StreamId> createConfinedStream(std::uint32_t sms) override;
  Result<void> destroyStream(runtime::StreamId stream) override;
  Result<void> copyToDevice(runtime::StreamId stream, runtime::DevicePtr to,
                            std::span<const std::byte> from) override;
  Result<void> copyToHost(runtime::StreamId stream, std::span<std::byte> to,
                          runtime::DevicePtr from) override;
  Result<void> fill(runtime::StreamId stream, runtime::DevicePtr to, std::byte value,
                    std::size_t bytes) override;
  /// For entries whose record has facts.
  Result<void> launch(runtime::StreamId stream, runtime::FunctionId function,
                      const LaunchShape &shape, std::span<const std::byte> parameters) override {
    return launchWith(stream, function, shape, parameters, {});
  }
  Result<void> launchWith(runtime::StreamId stream, runtime::FunctionId function,
                          const LaunchShape &shape, std::span<const std::byte> parameters,
                          std::span<const cudaLaunchAttribute> attributes);
  /// Puts no wait where no call was noted since `later` last waited for `earlier`. For one thread.
  Result<bool> waitFor(runtime::StreamId later, runtime::StreamId earlier) override;
  /// True while the stream takes part in a capture. The legacy stream takes part in captures on
  /// blocking streams.
  bool isHeldUp(runtime::StreamId earlier) override;
  bool hasNews(runtime::StreamId earlier) override;
  /// Under MPS kernels on two streams of a process make every kernel of the other processes start
  /// later, for as long as both processes live, even while the first does nothing: by 0.6 us each
  /// for a graph of ResNet-50 (an H100). So the lanes of a process whose work is all best effort
  /// put the legacy stream's work on that stream itself, since most programs use no other.
  bool putOnApplications(runtime::StreamId ofApplication,
                         const std::function<void()> &put) override;
  /// Makes the call, which puts work on the stream, unless the stream is held up; no capture begins
  /// meanwhile. Returns whether the call was made.
  template <class Call> bool putOn(runtime::StreamId stream, const Call &call) {
    auto made = [&] {
      call(stateOf(stream).handle);
      return true;
    };
    if (stateOf(stream).isOwn)
      return made();
    return captures.steadily([&] { return !isHeldUp(stream) && made(); });
  }
  /// The application has put work on one of its own streams.
  void noteCall(const StreamState &stream) { calls.note(stream); }
  /// The process ends: from now on the hooks query no stream of the application and write no
  /// control word, since their threads would call a CUDA runtime that may be gone. Returns when no
  /// thread makes such a call any more. Lanes still get work. `isReset`: the device is about to be
  /// reset, and the lanes are idle. Then this also destroys the green contexts, since the driver
  /// resets no device that has one.
  void end(bool isReset = false);
  /// Returns when no thread of the hooks is querying an application's stream or writing a control
  /// word.
  void awaitCalls() const { gate.awaitCalls(); }

private:
  const CudaApi &api;
  Captures &captures;
  runtime::DeviceInfo facts;
  int device = 0;
  void *driverContext = nullptr;
  runtime::GreenStreams confined{[this](const char *name) { return driverEntry(api, name); }};
  MemoryOperations operations;
  OwnStreams ownStreams;
  ControlSignal signal{api, ownStreams};
  std::atomic<std::size_t> streamCount{0}; ///< of the application
  std::size_t mostStreams = 0;             ///< up to this number each has its own connection
  std::mutex adding;
  std::deque<FunctionEntry> functions;
  bool isOneClassUnderMps = false;
  cudaEvent_t order = nullptr; ///< for waitFor()
  PassedCalls calls;
  std::atomic<std::uint32_t> waitersForDevice{0};
  CallGate gate;
};

} // namespace tally::hooks

#endif
