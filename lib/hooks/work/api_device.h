// The device that best-effort work runs on, as the runtime's parts see it: over the table of CUDA
// runtime calls, in the application's own context.
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

/// One entry of a module, the user's or a variant's.
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

/// How many calls have put something on streams of the application's past the queue: what is queued
/// has to come behind them. Thread-safe.
class PassedCalls {
public:
  void note(const StreamState &stream) {
    if (stream.kind == StreamKind::Legacy)
      legacy.fetch_add(1);
    all.fetch_add(1);
  }
  std::uint64_t sum() const { return all.load(); }
  std::uint64_t onLegacy() const { return legacy.load(); }
  /// Whether there may be some that waits for the stream have not been told of.
  bool areNewOn(const StreamState &stream) const { return stream.callsSeen != all.load(); }
  /// The default stream of a thread, which only that thread can put an event on, comes behind the
  /// legacy one, on which others may have put something since it last did.
  bool areAheadOf(const StreamState &stream) const {
    return stream.kind == StreamKind::PerThread && stream.legacyCallsSeen != legacy.load();
  }

private:
  std::atomic<std::uint64_t> all{0}, legacy{0};
};

/// Function ids are FunctionEntry*, module ids KernelRecord*, stream ids StreamState*.
class ApiDevice final : public runtime::StreamDevice {
public:
  ApiDevice(const CudaApi &api, Captures &captures) : api(api), captures(captures) {}

  /// Takes the calling thread's device, and its facts.
  Result<void> open();
  /// Once there is best-effort work: memory for the control word, which then holds `controlWord`,
  /// and the stream that writes it. Best-effort work that is let run from then on yields to every
  /// request that comes after it, since it carries the epoch that counts then.
  Result<void> openControl(std::uint64_t controlWord);
  int number() const { return device; }
  /// Its CUcontext; nullptr where there is no driver to ask.
  void *context() const { return driverContext; }
  runtime::DevicePtr controlAddress() const { return signal.address(); }

  const runtime::DeviceInfo &info() const override { return facts; }
  /// The record's own entry or one of its variants.
  Result<runtime::FunctionId> function(runtime::ModuleId record, std::string_view entry) override;
  Result<runtime::FunctionAttributes> attributes(runtime::FunctionId function) override;
  Result<std::uint32_t> residentBlocksPerSm(runtime::FunctionId function, Dim3 block,
                                            std::uint32_t dynamicSharedBytes) override;
  /// On stream 0: the control word, by the control stream; before openControl() nothing, since
  /// nobody would read it. Does not wait.
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
    // its work is best effort no stream that these hold up is waited for by what they wait for.
    bool areWaitsFew = isOneClassUnderMps && ownStreams.size() <= 4;
    return operations.wordWait && waitersForDevice.load() == 0 &&
           (areStreamsApart() || areWaitsFew);
  }
  /// While one lives no lane's stream begins to wait: its thread calls what waits for the whole
  /// device, and may hold a lock of the driver's that whoever lets the stream go needs. To be made
  /// before what is queued is waited for.
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
  /// How many streams the application has now.
  void setStreamCount(std::size_t now) { streamCount = now; }
  /// While a capture is open: no. A stream of the application's that cannot be asked (its context
  /// has failed) is idle, so that work that waits for it gets to hear of the failure itself; one of
  /// createStream() says what failed.
  Result<bool> isIdle(runtime::StreamId stream) override;
  Result<void> synchronize(runtime::StreamId stream) override;

  Result<runtime::DevicePtr> allocate(std::size_t bytes) override;
  Result<void> free(runtime::DevicePtr pointer) override;
  Result<runtime::MappedMemory> allocateMapped(std::size_t bytes) override;
  Result<runtime::StreamId> createStream(runtime::StreamPriority priority) override;
  /// Where the driver has green contexts.
  Result<runtime::StreamId> createConfinedStream(std::uint32_t sms) override;
  Result<void> destroyStream(runtime::StreamId stream) override;
  Result<void> copyToDevice(runtime::StreamId stream, runtime::DevicePtr to,
                            std::span<const std::byte> from) override;
  Result<void> copyToHost(runtime::StreamId stream, std::span<std::byte> to,
                          runtime::DevicePtr from) override;
  Result<void> fill(runtime::StreamId stream, runtime::DevicePtr to, std::byte value,
                    std::size_t bytes) override;
  /// Of entries whose record has facts.
  Result<void> launch(runtime::StreamId stream, runtime::FunctionId function,
                      const LaunchShape &shape, std::span<const std::byte> parameters) override {
    return launchWith(stream, function, shape, parameters, {});
  }
  Result<void> launchWith(runtime::StreamId stream, runtime::FunctionId function,
                          const LaunchShape &shape, std::span<const std::byte> parameters,
                          std::span<const cudaLaunchAttribute> attributes);
  /// Puts nothing where no call was noted since `later` last waited for `earlier`. For one thread.
  Result<bool> waitFor(runtime::StreamId later, runtime::StreamId earlier) override;
  /// While the stream takes part in a capture, as the legacy one does in those on blocking streams.
  bool isHeldUp(runtime::StreamId earlier) override;
  bool hasNews(runtime::StreamId earlier) override;
  /// Makes the call, which puts something on the stream, unless that is held up; no capture begins
  /// meanwhile. Whether it was made.
  template <class Call> bool putOn(runtime::StreamId stream, const Call &call) {
    auto made = [&] {
      call(stateOf(stream).handle);
      return true;
    };
    if (stateOf(stream).isOwn)
      return made();
    return captures.steadily([&] { return !isHeldUp(stream) && made(); });
  }
  /// The application has put something on some stream of its own.
  void noteCall(const StreamState &stream) { calls.note(stream); }
  /// The process ends: from now on no application's stream is asked and no control word written,
  /// for which threads of the hooks would call a CUDA runtime that may be gone. Returns when nobody
  /// does any more. What is put on lanes still is.
  void end() { gate.shut(); }
  /// The device is about to be reset, and nothing runs on lanes: end(), and the green contexts go,
  /// since the driver resets no device that has one.
  void retire();
  /// Returns when no thread of the hooks is asking an application's stream or writing a control
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
  std::size_t mostStreams = 0;             ///< with which each has its own connection
  std::mutex adding;
  std::deque<FunctionEntry> functions;
  const bool isOneClassUnderMps = Settings::get().bestEffort && runtime::isMpsRunning();
  cudaEvent_t order = nullptr; ///< of waitFor()
  PassedCalls calls;
  std::atomic<std::uint32_t> waitersForDevice{0};
  CallGate gate;
};

} // namespace tally::hooks

#endif
