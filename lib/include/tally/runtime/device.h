// The interface of a device that the runtime needs: the CUDA driver or the emulator.
//
// Streams are in-order queues; two streams are unordered. A call that takes a stream returns before
// the work is done unless its comment says otherwise. All calls are thread-safe. Errors name the
// call and the device's message; after an execution fault every later call on the device fails too.
#ifndef TALLY_RUNTIME_DEVICE_H
#define TALLY_RUNTIME_DEVICE_H

#include "tally/bundle/bundle.h"
#include "tally/support/dim3.h"
#include "tally/support/result.h"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tally::runtime {

using DevicePtr = std::uint64_t;
enum class ModuleId : std::uint64_t {};
enum class FunctionId : std::uint64_t {};
enum class StreamId : std::uint64_t {};

/// Three levels that every device offers. Tally's control stream is above all application streams.
enum class StreamPriority : std::uint8_t { Control, High, Low };

struct DeviceInfo {
  std::string name;
  std::uint32_t arch = 0; ///< 90 for sm_90
  std::uint32_t smCount = 0;
  std::uint32_t maxSharedBytesPerBlock = 0; ///< with opt-in; static plus dynamic
  /// Resources of one SM for all its blocks; 0 where the device cannot tell (an emulator).
  std::uint32_t threadsPerSm = 0, registersPerSm = 0, sharedBytesPerSm = 0;
  std::uint32_t blocksPerSm = 0; ///< places for blocks; 0 where the device cannot tell
  int driverVersion = 0;         ///< CUDA version of the driver; 0: no driver (an emulator)
  /// UUID of the GPU, or of the part of it (MIG) that the device is: 32 digits in five groups, as
  /// nvidia-smi shows it after "GPU-". An emulator has the UUID of its options.
  std::string uuid;
  /// Memory bandwidth reached in practice, in bytes a nanosecond (GB/s); 0: unknown.
  std::uint32_t bandwidth = 0;
  /// The most that the host adds to the time of a launch that it sends to an idle device and whose
  /// end it sees: before the first block begins plus after the last block ends. 0: unknown.
  std::chrono::nanoseconds launchTurn{0};
};

/// Host memory that the device reads and writes in place.
struct MappedMemory {
  std::byte *host = nullptr;
  DevicePtr device = 0;
};

struct FunctionAttributes {
  std::uint32_t registers = 0; ///< registers per thread; 0 where the device cannot tell (emulator)
  std::uint32_t staticSharedBytes = 0;
  std::uint32_t maxThreadsPerBlock = 0;
};

/// A wait of a stream for a 4-byte word of device memory, until the word equals `value`, or is at
/// least `value` (compared as numbers that wrap).
struct WordWait {
  enum class Until : std::uint8_t { Equal, AtLeast };
  DevicePtr address = 0; ///< 4-byte aligned
  std::uint32_t value = 0;
  Until until = Until::Equal;

  bool holds(std::uint32_t word) const {
    return until == Until::Equal ? word == value : static_cast<std::int32_t>(word - value) >= 0;
  }
};

/// The part of a device that knows the functions of loaded modules.
class FunctionDevice {
public:
  virtual ~FunctionDevice() = default;
  FunctionDevice(const FunctionDevice &) = delete;
  FunctionDevice &operator=(const FunctionDevice &) = delete;

  virtual const DeviceInfo &info() const = 0;
  virtual Result<FunctionId> function(ModuleId module, std::string_view entry) = 0;
  virtual Result<FunctionAttributes> attributes(FunctionId function) = 0;
  /// Number of thread blocks of this shape that fit one SM at a time; 0 when the shape can never
  /// run. After the call the function may be launched with the shape's dynamic shared memory.
  virtual Result<std::uint32_t> residentBlocksPerSm(FunctionId function, Dim3 block,
                                                    std::uint32_t dynamicSharedBytes) = 0;

protected:
  FunctionDevice() = default;
};

/// The part of a device that tells running work to yield and reports the streams that have work.
class SignalDevice {
public:
  virtual ~SignalDevice() = default;
  SignalDevice(const SignalDevice &) = delete;
  SignalDevice &operator=(const SignalDevice &) = delete;

  /// Makes the device store 8 bytes in stream order; `to` may be mapped memory.
  virtual Result<void> writeValue(StreamId stream, DevicePtr to, std::uint64_t value) = 0;
  /// A word in mapped memory, 0 at first, that streams can wait for; nullptr where they cannot.
  virtual std::atomic<std::uint64_t> *trigger() { return nullptr; }
  /// In stream order, waits until trigger() is at least `reached`, then stores like writeValue().
  virtual Result<void> writeValueWhen(StreamId /*stream*/, std::uint64_t /*reached*/,
                                      DevicePtr /*to*/, std::uint64_t /*value*/) {
    return Error{"streams of this device do not wait"};
  }
  /// Whether the stream of StreamPriority::Control would hold up no other stream if it waited now.
  virtual bool mayWait() const { return false; }
  /// Whether all work put on the stream so far is done.
  virtual Result<bool> isIdle(StreamId stream) = 0;
  /// Blocks until all work put on the stream so far is done.
  virtual Result<void> synchronize(StreamId stream) = 0;

protected:
  SignalDevice() = default;
};

/// The part of a device that has memory and runs work in order on streams.
class StreamDevice : public FunctionDevice, public SignalDevice {
public:
  virtual Result<DevicePtr> allocate(std::size_t bytes) = 0;
  /// Does not wait: the caller has synchronised all work that uses the memory.
  virtual Result<void> free(DevicePtr pointer) = 0;
  /// Allocates zeroed host memory, visible to host and device, that lives as long as the device.
  virtual Result<MappedMemory> allocateMapped(std::size_t bytes) = 0;

  virtual Result<StreamId> createStream(StreamPriority priority) = 0;
  /// Creates a stream of low priority whose kernels run only on some of the device's SMs: about
  /// `sms` of them, at least one, as the device can divide them. Fails where it cannot.
  virtual Result<StreamId> createConfinedStream(std::uint32_t sms) {
    static_cast<void>(sms);
    return Error{"this device cannot confine a stream to a part of its SMs"};
  }
  virtual Result<void> destroyStream(StreamId stream) = 0;

  /// Copies between host and device. The caller leaves the host memory untouched until the copy is
  /// done. Copies of mapped memory do not block; copies of other memory may.
  virtual Result<void> copyToDevice(StreamId stream, DevicePtr to,
                                    std::span<const std::byte> from) = 0;
  virtual Result<void> copyToHost(StreamId stream, std::span<std::byte> to, DevicePtr from) = 0;
  virtual Result<void> fill(StreamId stream, DevicePtr to, std::byte value, std::size_t bytes) = 0;
  /// `parameters` is the entry's whole parameter space, laid out as in PTX; the call copies it.
  virtual Result<void> launch(StreamId stream, FunctionId function, const LaunchShape &shape,
                              std::span<const std::byte> parameters) = 0;

  /// In stream order, waits until each of the words has held at some time; only where
  /// hasWordWaits(). The work that makes them hold must not depend on streams that the wait holds
  /// up: see mayWaitForWords().
  virtual Result<void> waitForWords(StreamId /*stream*/, std::span<const WordWait> /*words*/) {
    return Error{"streams of this device do not wait for words"};
  }
  virtual bool hasWordWaits() const { return false; }
  /// Whether a stream that waits now would hold up no other stream, and no call that keeps other
  /// callers of the device waiting.
  virtual bool mayWaitForWords() const { return hasWordWaits(); }
  /// Whether streams are so few that a stream that waits for another holds up no third stream.
  virtual bool areStreamsApart() const { return false; }
  /// Makes work put on `later` from now on start only when the work on `earlier` now is done. Does
  /// not block. Returns whether a wait was put on `later`: none is if it is known to come after
  /// `earlier` already.
  virtual Result<bool> waitFor(StreamId later, StreamId earlier) = 0;
  /// Whether the stream may have work that came after the last waitFor() for it.
  virtual bool hasNews(StreamId /*earlier*/) { return true; }
  /// Whether waitFor() cannot take the stream at the moment, but can later.
  virtual bool isHeldUp(StreamId earlier) {
    static_cast<void>(earlier);
    return false;
  }
  /// Calls `put`, which puts a lane's work on this stream of the application, if the device wants
  /// such work there rather than on a stream of the lane's behind a wait, and not while isHeldUp().
  /// The stream is not held up before `put` returns. Returns whether `put` was called.
  virtual bool putOnApplications(StreamId ofApplication, const std::function<void()> &put) {
    static_cast<void>(ofApplication), static_cast<void>(put);
    return false;
  }

protected:
  StreamDevice() = default;
};

/// A function that the program has loaded itself.
struct AdoptedFunction {
  FunctionId id{};
  /// The function's parameters; nothing where the device cannot tell.
  std::optional<std::vector<bundle::Parameter>> parameters;
  Dim3 requiredCluster{0, 0, 0}; ///< in blocks; zeros: no cluster required
};

class Device : public StreamDevice {
public:
  /// Loads the best image for this device at once: a cubin of its arch, else PTX.
  virtual Result<ModuleId> loadModule(const bundle::Bundle &bundle) = 0;
  /// Does not wait: the caller has synchronised all work that uses the module. Its functions end.
  virtual Result<void> unloadModule(ModuleId module) = 0;

  /// Makes the program's own stream usable by its handle, until releaseStream(), which leaves the
  /// stream as it is. The stream must be of the context that this device works in.
  virtual Result<StreamId> adoptStream(std::uint64_t nativeStream) {
    static_cast<void>(nativeStream);
    return Error{"this device has no streams but those that it makes"};
  }
  virtual void releaseStream(StreamId stream) { static_cast<void>(stream); }
  /// Makes the program's own function usable by its handle, until releaseFunction().
  virtual Result<AdoptedFunction> adoptFunction(std::uint64_t nativeFunction,
                                                std::string_view name) {
    static_cast<void>(nativeFunction);
    static_cast<void>(name);
    return Error{"this device has no functions but those of modules that it loads"};
  }
  virtual void releaseFunction(FunctionId function) { static_cast<void>(function); }

protected:
  Device() = default;
};

/// Opens the first CUDA device (CUDA_VISIBLE_DEVICES applies). Fails with the driver's message
/// where there is no driver or no GPU.
Result<std::unique_ptr<Device>> openCudaDevice();

/// Options of the emulator: it runs `smCount` virtual SMs on as many host threads.
struct EmulatorOptions {
  std::uint32_t smCount = 2;
  std::uint32_t residentBlocksPerSm = 2;
  /// Device addresses equal host addresses, where the process has address space for that.
  bool hostAddressed = false;
  /// Processes whose emulators have the same UUID share an arena like processes on one GPU.
  /// Letters, digits, '-' and '_'; read when the device is opened. Empty: no UUID.
  const char *uuid = "";
};
Result<std::unique_ptr<Device>> openEmulatorDevice(const EmulatorOptions &options = {});

} // namespace tally::runtime

#endif
