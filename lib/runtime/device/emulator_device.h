// The emulator as a device. A machine holds memory and programs, a queue runs streams on virtual
// SMs. This class connects them to the Device interface, and has further calls for the emulated
// CUDA runtime (lib/emulated_cuda).
#ifndef TALLY_LIB_RUNTIME_DEVICE_EMULATOR_DEVICE_H
#define TALLY_LIB_RUNTIME_DEVICE_EMULATOR_DEVICE_H

#include "device/emulator_queue.h"

#include "tally/emulator/machine.h"
#include "tally/runtime/device.h"

#include <map>
#include <mutex>
#include <string>
#include <string_view>

namespace tally::runtime {

class EmulatorDevice final : public Device {
public:
  explicit EmulatorDevice(const EmulatorOptions &options);

  const DeviceInfo &info() const override { return facts; }

  Result<ModuleId> loadModule(const bundle::Bundle &bundle) override;
  Result<void> unloadModule(ModuleId module) override;
  Result<FunctionId> function(ModuleId module, std::string_view entry) override;
  Result<FunctionAttributes> attributes(FunctionId function) override;
  Result<std::uint32_t> residentBlocksPerSm(FunctionId function, Dim3 block,
                                            std::uint32_t dynamicSharedBytes) override;

  Result<DevicePtr> allocate(std::size_t bytes) override;
  Result<void> free(DevicePtr pointer) override;
  Result<MappedMemory> allocateMapped(std::size_t bytes) override;

  Result<StreamId> createStream(StreamPriority priority) override;
  Result<void> destroyStream(StreamId stream) override { return queue.destroyStream(stream); }

  Result<void> copyToDevice(StreamId stream, DevicePtr to,
                            std::span<const std::byte> from) override;
  Result<void> copyToHost(StreamId stream, std::span<std::byte> to, DevicePtr from) override;
  Result<void> fill(StreamId stream, DevicePtr to, std::byte value, std::size_t bytes) override;
  bool areStreamsApart() const override { return true; }
  Result<void> waitForWords(StreamId stream, std::span<const WordWait> words) override;
  bool hasWordWaits() const override { return true; }
  Result<void> writeValue(StreamId stream, DevicePtr to, std::uint64_t value) override;
  Result<void> launch(StreamId stream, FunctionId function, const LaunchShape &shape,
                      std::span<const std::byte> parameters) override;

  Result<bool> isIdle(StreamId stream) override { return queue.isIdle(stream); }
  Result<void> synchronize(StreamId stream) override { return queue.synchronize(stream); }
  Result<bool> waitFor(StreamId later, StreamId earlier) override {
    return queue.waitFor(later, earlier);
  }

  // Beyond the interface.

  /// Memory and its views; thread-safe.
  emulator::Machine &machine() { return emulated; }
  /// Links the modules into one (Machine::load).
  Result<ModuleId> loadModules(std::span<const ptx::Module *const> modules);
  Result<emulator::ProgramVariable> variable(ModuleId module, std::string_view name);
  Result<emulator::KernelInfo> kernelInfo(FunctionId function);
  Result<void> launch(StreamId stream, FunctionId function, const LaunchShape &shape,
                      std::span<const std::byte> parameters, emulator::Residency residency);
  /// Runs `action` in stream order, perhaps on the calling thread before this returns; an error
  /// that it returns fails the device.
  Result<void> enqueue(StreamId stream, std::function<Result<void>()> action) {
    return queue.enqueue(stream, std::move(action));
  }
  /// Runs `action` on a thread of the device, so that it may wait for the caller's next steps.
  Result<void> enqueueForHost(StreamId stream, std::function<void()> action) {
    return queue.enqueueForHost(stream, std::move(action));
  }
  /// Operations put on the stream later start once holds() was true; the stream polls it.
  Result<void> waitUntil(StreamId stream, std::function<bool()> holds) {
    return queue.waitUntil(stream, std::move(holds));
  }
  using Marker = EmulatorQueue::Marker;
  Result<Marker> mark(StreamId stream) { return queue.mark(stream); }
  Result<void> waitFor(StreamId later, const Marker &marker) {
    return queue.waitFor(later, marker);
  }
  Result<bool> isReached(const Marker &marker) { return queue.isReached(marker); }
  Result<void> synchronize(const Marker &marker) { return queue.synchronize(marker); }
  /// The kernel's fault that ended the device, if any.
  std::optional<emulator::Fault> fault() { return queue.fault(); }

private:
  struct Entry {
    ModuleId module{};
    std::shared_ptr<const emulator::Program> program;
    std::string name;
    emulator::KernelInfo info;
  };
  Result<Entry> entry(FunctionId function);
  Result<std::span<std::byte>> memory(std::string_view call, DevicePtr pointer, std::size_t bytes);

  static constexpr std::uint32_t maximumSharedBytes = 227 * 1024;

  EmulatorOptions options;
  DeviceInfo facts;
  emulator::Machine emulated;
  std::mutex mutex; ///< guards modules and functions
  std::map<ModuleId, std::shared_ptr<const emulator::Program>> modules;
  std::map<FunctionId, Entry> functions;
  std::uint64_t lastModule = 0, lastFunction = 0;
  EmulatorQueue queue; ///< last: its threads use the machine
};

} // namespace tally::runtime

#endif
