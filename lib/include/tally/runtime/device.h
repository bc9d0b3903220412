// What the runtime needs of a device: the CUDA driver or the emulator.
//
// Streams are in-order queues; two streams are unordered. Every call that takes a stream returns
// before the work is done unless it says otherwise. All calls are thread-safe. Errors name the call
// and what the device said; after an execution fault every later call on the device fails likewise.
#ifndef TALLY_RUNTIME_DEVICE_H
#define TALLY_RUNTIME_DEVICE_H

#include "tally/bundle/bundle.h"
#include "tally/support/dim3.h"
#include "tally/support/result.h"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
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

/// Three levels that every device offers: tally's own control stream is above all applications'.
enum class StreamPriority : std::uint8_t { Control, High, Low };

struct DeviceInfo {
  std::string name;
  std::uint32_t arch = 0; ///< 90 for sm_90
  std::uint32_t smCount = 0;
  std::uint32_t maxSharedBytesPerBlock = 0; ///< with opt-in, static and dynamic together
  /// What one SM has for all its blocks; 0 where the device cannot say (an emulator).
  std::uint32_t threadsPerSm = 0, registersPerSm = 0, sharedBytesPerSm = 0;
  std::uint32_t blocksPerSm = 0; ///< likewise
  int driverVersion = 0;         ///< CUDA's; 0: there is none (an emulator)
  /// Of the GPU or of the part of it (MIG) that the device is: 32 digits in five groups, as
  /// nvidia-smi shows them behind "GPU-". Of an emulator as its options say.
  std::string uuid;
  /// Of its memory, what can be had in practice: bytes a nanosecond (GB/s). 0: it cannot say.
  std::uint32_t bandwidth = 0;
  /// What the host adds, at most, to the time of a launch that it sends to an idle device and whose
  /// end it sees: until the first block begins, and behind the last one. 0: nothing is known.
  std::chrono::nanoseconds launchTurn{0};
};

/// Host memory that the device reads and writes in place.
struct MappedMemory {
  std::byte *host = nullptr;
  DevicePtr device = 0;
};

struct FunctionAttributes {
  std::uint32_t registers = 0; ///< per thread; 0 where the device cannot say (emulator)
  std::uint32_t staticSharedBytes = 0;
  std::uint32_t maxThreadsPerBlock = 0;
};

/// What a stream waits for: a 4-byte word of device memory, until it equals `value` or, as a number
/// that wraps, is at least `value`.
struct WordWait {
  enum class Until : std::uint8_t { Equal, AtLeast };
  DevicePtr address = 0; ///< 4-byte aligned
  std::uint32_t value = 0;
  Until until = Until::Equal;

  bool holds(std::uint32_t word) const {
    return until == Until::Equal ? word == value : static_cast<std::int32_t>(word - value) >= 0;
  }
};

/// The part of a device that answers for the functions of loaded modules.
class FunctionDevice {
public:
  virtual ~FunctionDevice() = default;
  FunctionDevice(const FunctionDevice &) = delete;
  FunctionDevice &operator=(const FunctionDevice &) = delete;

  virtual const DeviceInfo &info() const = 0;
  virtual Result<FunctionId> function(ModuleId module, std::string_view entry) = 0;
  virtual Result<FunctionAttributes> attributes(FunctionId function) = 0;
  /// Thread blocks of this shape that fit one SM at a time; 0 when the shape can never run. From
  /// then on the function may be launched with so much dynamic shared memory.
  virtual Result<std::uint32_t> residentBlocksPerSm(FunctionId function, Dim3 block,
                                                    std::uint32_t dynamicSharedBytes) = 0;

protected:
  FunctionDevice() = default;
};

/// The part that tells running work to yield, and says which streams have work.
class SignalDevice {
public:
  virtual ~SignalDevice() = default;
  SignalDevice(const SignalDevice &) = delete;
  SignalDevice &operator=(const SignalDevice &) = delete;

  /// One 8-byte store by the device, in stream order; `to` may be mapped memory.
  virtual Result<void> writeValue(StreamId stream, DevicePtr to, std::uint64_t value) = 0;
  /// A word in mapped memory, 0 at first, that streams can wait for; nullptr where they cannot.
  virtual std::atomic<std::uint64_t> *trigger() { return nullptr; }
  /// In stream order: waits until trigger() is at least `reached`, then stores as writeValue()
  /// does.
  virtual Result<void> writeValueWhen(StreamId /*stream*/, std::uint64_t /*reached*/,
                                      DevicePtr /*to*/, std::uint64_t /*value*/) {
    return Error{"streams of this device do not wait"};
  }
  /// Whether the stream of StreamPriority::Control would hold up no other one if it waited now.
  virtual bool mayWait() const { return false; }
  /// Whether all work put on the stream so far is done.
  virtual Result<bool> isIdle(StreamId stream) = 0;
  /// Blocks until all work put on the stream so far is done.
  virtual Result<void> synchronize(StreamId stream) = 0;

protected:
  SignalDevice() = default;
};

/// The part that has memory, and runs work in order on streams.
class StreamDevice : public FunctionDevice, public SignalDevice {
public:
  virtual Result<DevicePtr> allocate(std::size_t bytes) = 0;
  /// Waits for nothing: the caller has synchronised what uses the memory.
  virtual Result<void> free(DevicePtr pointer) = 0;
  /// Zeroed host memory, visible to both sides, that lives as long as the device.
  virtual Result<MappedMemory> allocateMapped(std::size_t bytes) = 0;

  virtual Result<StreamId> createStream(StreamPriority priority) = 0;
  /// A stream of low priority whose kernels run on some of the device's SMs only: at least one,
  /// about `sms` of them, as the device can divide them. Fails where it cannot.
  virtual Result<StreamId> createConfinedStream(std::uint32_t sms) {
    static_cast<void>(sms);
    return Error{"this device cannot confine a stream to a part of its SMs"};
  }
  virtual Result<void> destroyStream(StreamId stream) = 0;

  /// Host memory given to the two copies stays untouched by the caller until the copy is done;
  /// from mapped memory they do not block, from other memory they may.
  virtual Result<void> copyToDevice(StreamId stream, DevicePtr to,
                                    std::span<const std::byte> from) = 0;
  virtual Result<void> copyToHost(StreamId stream, std::span<std::byte> to, DevicePtr from) = 0;
  virtual Result<void> fill(StreamId stream, DevicePtr to, std::byte value, std::size_t bytes) = 0;
  /// `parameters` is the entry's whole parameter space, laid out as PTX says; copied at the call.
  virtual Result<void> launch(StreamId stream, FunctionId function, const LaunchShape &shape,
                              std::span<const std::byte> parameters) = 0;

  /// In stream order: waits until all of these hold at some time each; where hasWordWaits().
  /// Whoever makes them hold must not need what the wait holds up: see mayWaitForWords().
  virtual Result<void> waitForWords(StreamId /*stream*/, std::span<const WordWait> /*words*/) {
    return Error{"streams of this device do not wait for words"};
  }
  virtual bool hasWordWaits() const { return false; }
  /// Whether a stream that waits now holds up no other one, nor a call that keeps the device's
  /// other callers waiting.
  virtual bool mayWaitForWords() const { return hasWordWaits(); }
  /// Whether streams are so few that one that waits for another holds up no third one.
  virtual bool areStreamsApart() const { return false; }
  /// `later` starts what is put there from now on only when what is on `earlier` now is done.
  /// Blocks nobody. Returns whether that had to be put on `later`: not where it is known to come
  /// behind that already.
  virtual Result<bool> waitFor(StreamId later, StreamId earlier) = 0;
  /// Whether there may be work on the stream that waitFor() was not asked about since.
  virtual bool hasNews(StreamId /*earlier*/) { return true; }
  /// Whether waitFor() cannot be asked about a stream at the moment, and can later.
  virtual bool isHeldUp(StreamId earlier) {
    static_cast<void>(earlier);
    return false;
  }

protected:
  StreamDevice() = default;
};

/// A function that the program has loaded itself.
struct AdoptedFunction {
  FunctionId id{};
  /// Nothing where the device cannot tell.
  std::optional<std::vector<bundle::Parameter>> parameters;
  Dim3 requiredCluster{0, 0, 0}; ///< in blocks; zeros: none
};

class Device : public StreamDevice {
public:
  /// Loads the best image for this device: a cubin of its arch, else PTX. Eager.
  virtual Result<ModuleId> loadModule(const bundle::Bundle &bundle) = 0;
  /// Waits for nothing: the caller has synchronised what uses the module. Its functions end.
  virtual Result<void> unloadModule(ModuleId module) = 0;

  /// A stream of the program's, by its handle, of the context that this device works in; until
  /// releaseStream(), which leaves it as it is.
  virtual Result<StreamId> adoptStream(std::uint64_t nativeStream) {
    static_cast<void>(nativeStream);
    return Error{"this device has no streams but those that it makes"};
  }
  virtual void releaseStream(StreamId stream) { static_cast<void>(stream); }
  /// The same of a function of the program's, until releaseFunction().
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

/// The first CUDA device (CUDA_VISIBLE_DEVICES applies). Fails with the driver's words where there
/// is no driver or no GPU.
Result<std::unique_ptr<Device>> openCudaDevice();

/// The emulator as a device: `smCount` virtual SMs on as many host threads.
struct EmulatorOptions {
  std::uint32_t smCount = 2;
  std::uint32_t residentBlocksPerSm = 2;
  /// Device addresses are those of host memory, where the process has room for that.
  bool hostAddressed = false;
  /// Processes whose emulators have the same one share an arena as those on one GPU do. Letters,
  /// digits, '-' and '_'; read when the device is opened. Empty: the device has none.
  const char *uuid = "";
};
Result<std::unique_ptr<Device>> openEmulatorDevice(const EmulatorOptions &options = {});

} // namespace tally::runtime

#endif
