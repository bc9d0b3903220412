// The control word of a device, written by its control stream.
#ifndef TALLY_LIB_RUNTIME_REQUESTS_DEVICE_CONTROL_H
#define TALLY_LIB_RUNTIME_REQUESTS_DEVICE_CONTROL_H

#include "lane/lane.h"

#include "tally/runtime/control_word.h"

#include <cstdint>

namespace tally::runtime {

/// Stores the control word through the control stream. Copyable.
struct ControlWriter {
  SignalDevice *device = nullptr;
  StreamId stream{};
  DevicePtr address = 0;
  Result<void> operator()(std::uint64_t word) const {
    return device->writeValue(stream, address, word);
  }
  Result<void> whenTriggered(std::uint64_t epoch, std::uint64_t word) const {
    return device->writeValueWhen(stream, epoch, address, word);
  }
};
using DeviceControl = ControlWord<ControlWriter, ClockFunction>;

} // namespace tally::runtime

#endif
