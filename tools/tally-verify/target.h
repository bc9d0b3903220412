// A place to run kernels: the emulator's microscope, or a device of the runtime.
#ifndef TALLY_VERIFY_TARGET_H
#define TALLY_VERIFY_TARGET_H

#include "tally/bundle/bundle.h"
#include "tally/emulator/machine.h"
#include "tally/support/dim3.h"
#include "tally/support/result.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

namespace tally::runtime {
class Device;
}

namespace tally::verify {

using DeviceAddress = std::uint64_t;
/// Called at the `index`-th poll since reset(), before the poll reads the control word.
using PollHook = std::function<void(std::uint64_t index)>;

class Target {
public:
  Target() = default;
  virtual ~Target() = default;
  Target(const Target &) = delete;
  Target &operator=(const Target &) = delete;

  /// Whether setPollHook() and setSchedule() have an effect. Where they do not, requests to yield
  /// come from another host thread at any time.
  virtual bool isMicroscope() const = 0;

  /// Loads the module anew and drops all allocations, so that each run starts from the same state.
  virtual Result<void> reset() = 0;
  /// `bytes` >= 1; at least 8-byte aligned, contents unspecified. Valid until reset().
  virtual Result<DeviceAddress> allocate(std::size_t bytes) = 0;
  virtual Result<void> write(DeviceAddress to, std::span<const std::byte> from) = 0;
  virtual Result<void> read(std::span<std::byte> to, DeviceAddress from) = 0;
  /// Runs a grid to its end. The error of a kernel that faulted names the place.
  virtual Result<void> launch(std::string_view entry, const LaunchShape &shape,
                              std::span<const std::byte> parameters) = 0;

  /// Allocates the control word and watches it.
  virtual Result<DeviceAddress> allocateControl(std::uint64_t word) = 0;
  /// Stores the control word. A poll hook may call it and, on a device, any thread.
  virtual Result<void> writeControl(std::uint64_t word) = 0;
  virtual void setPollHook(PollHook hook) = 0;
  virtual void setSchedule(const emulator::Schedule &schedule) = 0;

  /// Sets the number of warp-instructions after which a launch counts as endless and is stopped. No
  /// effect on a device, which does not count instructions.
  virtual void setStepLimit(std::uint64_t) {}
  /// Returns the thread-instructions of all launches so far; 0 on a device.
  virtual std::uint64_t executed() const { return 0; }
};

/// Opens the emulator with one host thread; a hook sees every poll. The module is the bundle's PTX
/// image. A launch of more than `stepLimit` warp-instructions counts as endless.
Result<std::unique_ptr<Target>>
openMicroscope(const bundle::Bundle &bundle,
               std::uint64_t stepLimit = emulator::Machine::defaultStepLimit);

/// Returns a device of the runtime as a target. The device must outlive the target.
std::unique_ptr<Target> targetOf(runtime::Device &device, const bundle::Bundle &bundle);

} // namespace tally::verify

#endif
