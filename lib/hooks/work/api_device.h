// The device that best-effort work runs on, as the runtime's parts see it: over the table of CUDA
// runtime calls, in the application's own context.
#ifndef TALLY_LIB_HOOKS_WORK_API_DEVICE_H
#define TALLY_LIB_HOOKS_WORK_API_DEVICE_H

#include "device/driver_environment.h"
#include "device/green_context.h"
#include "device/stream_memory.h"
#include "state/captures.h"
#include "state/registry.h"
#include "state/settings.h"
#include "state/streams.h"
#include "tables/cuda_api.h"

#include "tally/runtime/device.h"

#include <atomic>
#include <deque>
#include <list>
#include <mutex>

namespace tally::hooks {

/// One entry of a module, the user's or a variant's.
struct FunctionEntry {
  const CudaApi *api = nullptr;
  const void *address = nullptr;
  const KernelRecord *record = nullptr;
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
  runtime::DevicePtr controlAddress() const { return control; }

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
  std::atomic<std::uint64_t> *trigger() override { return triggerWord; }
  Result<void> writeValueWhen(runtime::StreamId stream, std::uint64_t reached,
                              runtime::DevicePtr to, std::uint64_t value) override;
  bool mayWait() const override { return batchMemOp && (controlIsApart || areStreamsApart()); }
  bool areStreamsApart() const override {
    return streamCount.load(std::memory_order_relaxed) < mostStreams;
  }
  Result<void> waitForWords(runtime::StreamId stream,
                            std::span<const runtime::WordWait> words) override;
  bool hasWordWaits() const override { return wordWait; }
  bool mayWaitForWords() const override {
    return wordWait && waitersForDevice.load() == 0 && (areStreamsApart() || areWaitsFew());
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
  void noteCall(const StreamState &stream) {
    if (stream.kind == StreamKind::Legacy)
      legacyCalls.fetch_add(1);
    calls.fetch_add(1);
  }
  /// The process ends: from now on no application's stream is asked and no control word written,
  /// for which threads of the hooks would call a CUDA runtime that may be gone. Returns when nobody
  /// does any more. What is put on lanes still is.
  void end();
  /// The device is about to be reset, and nothing runs on lanes: end(), and the green contexts go,
  /// since the driver resets no device that has one.
  void retire();
  /// Returns when no thread of the hooks is asking an application's stream or writing a control
  /// word: none is for longer than a call of the CUDA runtime takes.
  void awaitCalls() const;

  /// An entry point of the driver; nullptr where there is none.
  static void *driverEntry(const CudaApi &api, const char *name);
  /// What `call` returned, in CUDA's words.
  static Error failure(const CudaApi &api, const char *call, cudaError_t status);
  static runtime::StreamId idOf(StreamState &state) {
    return static_cast<runtime::StreamId>(reinterpret_cast<std::uint64_t>(&state));
  }
  static runtime::ModuleId idOf(KernelRecord &record) {
    return static_cast<runtime::ModuleId>(reinterpret_cast<std::uint64_t>(&record));
  }
  static StreamState &stateOf(runtime::StreamId id) {
    return *reinterpret_cast<StreamState *>(static_cast<std::uint64_t>(id));
  }
  static const FunctionEntry &entryOf(runtime::FunctionId id) {
    return *reinterpret_cast<const FunctionEntry *>(static_cast<std::uint64_t>(id));
  }

private:
  using StreamWriteValue = int (*)(cudaStream_t, std::uint64_t, std::uint64_t, unsigned);

  /// Under MPS two streams of a process may wait (an H200, 4 connections): two lanes. Where all its
  /// work is best effort no stream that these hold up is waited for by what they wait for.
  bool areWaitsFew() const { return isOneClassUnderMps && ownCount.load() <= 4; }
  Result<void> openControlStream();
  Result<void> openTrigger();
  bool isBehindLegacy(const StreamState &stream) const;
  Result<void> describe();
  Result<void> describeSms();
  void findContext();
  runtime::StreamId addOwn(cudaStream_t handle);

  const CudaApi &api;
  Captures &captures;
  runtime::DeviceInfo facts;
  int device = 0;
  void *driverContext = nullptr;
  runtime::GreenStreams confined{[this](const char *name) { return driverEntry(api, name); }};
  runtime::DevicePtr control = 0;
  cudaStream_t controlStream = nullptr;
  bool controlIsApart = false;         ///< that stream has a connection of its own
  std::atomic<bool> hasControl{false}; ///< set behind the others
  /// The driver's cuStreamWriteValue64; without it the word is copied from `words`.
  StreamWriteValue streamWriteValue = nullptr;
  /// The driver's cuStreamBatchMemOp; without it nothing is armed.
  runtime::BatchMemOp batchMemOp = nullptr;
  /// The same, or the emulator's in its place; without it no lane's stream waits.
  runtime::BatchMemOp wordWait = nullptr;
  std::atomic<std::uint64_t> *triggerWord = nullptr; ///< mapped memory
  runtime::DevicePtr triggerAddress = 0;
  std::atomic<std::size_t> streamCount{0}; ///< of the application
  std::size_t mostStreams = 0;             ///< with which each has its own connection
  std::uint64_t *words = nullptr; ///< pinned; a ring, so that a word stays until it was copied
  std::size_t nextWord = 0;
  std::mutex mutex; ///< of the ring
  std::mutex adding;
  std::deque<FunctionEntry> functions;
  std::list<StreamState> ownStreams;
  std::atomic<std::size_t> ownCount{0};
  const bool isOneClassUnderMps = Settings::get().bestEffort && runtime::isMpsRunning();
  cudaEvent_t order = nullptr; ///< of waitFor()
  std::atomic<std::uint64_t> calls{0}, legacyCalls{0};
  std::atomic<std::uint32_t> waitersForDevice{0};
  std::atomic<bool> ended{false};
  std::atomic<std::uint32_t> inCalls{0}; ///< that awaitCalls() waits for
};

} // namespace tally::hooks

#endif
