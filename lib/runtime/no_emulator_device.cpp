// The emulator device of a library that was built without the emulator.
#include "tally/runtime/device.h"

namespace tally::runtime {

Result<std::unique_ptr<Device>> openEmulatorDevice(const EmulatorOptions &) {
  return Error{"the emulator is not in this build"};
}

} // namespace tally::runtime
