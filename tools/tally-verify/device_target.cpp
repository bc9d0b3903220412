// A device of the runtime as a target: the same buffers, launches and control word, no microscope.
#include "ptx_text.h"
#include "target.h"

#include "tally/runtime/device.h"

#include <algorithm>
#include <fmt/format.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tally::verify {

namespace {

class DeviceTarget final : public Target {
public:
  DeviceTarget(runtime::Device &device, bundle::Bundle bundle, bool hasVariables)
      : device(device), bundle(std::move(bundle)), hasVariables(hasVariables) {}
  ~DeviceTarget() override { static_cast<void>(freeAll()); }

  bool isMicroscope() const override { return false; }
  Result<void> reset() override;
  Result<DeviceAddress> allocate(std::size_t bytes) override;
  Result<void> write(DeviceAddress to, std::span<const std::byte> from) override;
  Result<void> read(std::span<std::byte> to, DeviceAddress from) override;
  Result<void> launch(std::string_view entry, const LaunchShape &shape,
                      std::span<const std::byte> parameters) override;
  Result<DeviceAddress> allocateControl(std::uint64_t word) override;
  Result<void> writeControl(std::uint64_t word) override {
    return device.writeValue(*controlStream, control, word);
  }
  void setPollHook(PollHook) override {}
  void setSchedule(const emulator::Schedule &) override {}

private:
  Result<void> openStreams();
  Result<void> freeAll();

  runtime::Device &device;
  bundle::Bundle bundle;
  bool hasVariables;
  std::optional<runtime::StreamId> stream, controlStream;
  std::optional<runtime::ModuleId> module;
  std::map<std::string, runtime::FunctionId, std::less<>> functions;
  std::vector<DeviceAddress> allocations;
  DeviceAddress control = 0;
};

Result<void> DeviceTarget::openStreams() {
  auto low = device.createStream(runtime::StreamPriority::Low);
  if (!low)
    return low.error();
  stream = *low;
  auto top = device.createStream(runtime::StreamPriority::Control);
  if (!top)
    return top.error();
  controlStream = *top;
  return {};
}

Result<void> DeviceTarget::freeAll() {
  if (stream)
    if (auto done = device.synchronize(*stream); !done)
      return done;
  if (controlStream)
    if (auto done = device.synchronize(*controlStream); !done)
      return done;
  for (DeviceAddress address : allocations)
    if (auto freed = device.free(address); !freed)
      return freed;
  allocations.clear();
  return {};
}

Result<void> DeviceTarget::reset() {
  if (!stream)
    if (auto opened = openStreams(); !opened)
      return opened;
  if (auto freed = freeAll(); !freed)
    return freed;
  // A device cannot unload, but only a module with variables of its own has state to reset.
  if (module && !hasVariables)
    return {};
  auto loaded = device.loadModule(bundle);
  if (!loaded)
    return loaded.error();
  module = *loaded;
  functions.clear();
  return {};
}

Result<DeviceAddress> DeviceTarget::allocate(std::size_t bytes) {
  auto address = device.allocate(bytes);
  if (address)
    allocations.push_back(*address);
  return address;
}

Result<void> DeviceTarget::write(DeviceAddress to, std::span<const std::byte> from) {
  if (auto copied = device.copyToDevice(*stream, to, from); !copied)
    return copied;
  return device.synchronize(*stream);
}

Result<void> DeviceTarget::read(std::span<std::byte> to, DeviceAddress from) {
  if (auto copied = device.copyToHost(*stream, to, from); !copied)
    return copied;
  return device.synchronize(*stream);
}

Result<void> DeviceTarget::launch(std::string_view entry, const LaunchShape &shape,
                                  std::span<const std::byte> parameters) {
  auto known = functions.find(entry);
  if (known == functions.end()) {
    auto function = device.function(*module, entry);
    if (!function)
      return function.error();
    known = functions.emplace(entry, *function).first;
  }
  auto launched = device.launch(*stream, known->second, shape, parameters);
  if (launched)
    launched = device.synchronize(*stream);
  if (!launched)
    return Error{fmt::format("{}: {}", entry, launched.error().message)};
  return {};
}

Result<DeviceAddress> DeviceTarget::allocateControl(std::uint64_t word) {
  auto address = allocate(sizeof word);
  if (!address)
    return address;
  control = *address;
  if (auto written = write(control, std::as_bytes(std::span(&word, 1))); !written)
    return written.error();
  return address;
}

} // namespace

std::unique_ptr<Target> targetOf(runtime::Device &device, const bundle::Bundle &bundle) {
  bundle::Bundle copy = bundle;
  bool hasVariables = false;
  if (auto text = ptxOf(bundle)) {
    std::string extended = withVariableReader(*text);
    hasVariables = extended.size() != text->size();
    // No cubin has the variable reader, so with variables the device assembles the PTX itself.
    if (hasVariables)
      copy.images = {{bundle::ImageFormat::Ptx, bundle.images.front().arch, std::move(extended)}};
  }
  return std::make_unique<DeviceTarget>(device, std::move(copy), hasVariables);
}

} // namespace tally::verify
