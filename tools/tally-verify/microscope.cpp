// The emulator as a target. Where the module has variables, which only loading initialises, each
// run gets a new machine. Otherwise the target frees the machine's allocations, which is much
// quicker.
#include "ptx_text.h"
#include "target.h"

#include <fmt/format.h>

#include <cstring>
#include <optional>
#include <vector>

namespace tally::verify {

namespace {

class Microscope final : public Target {
public:
  Microscope(ptx::Module module, std::uint64_t stepLimit)
      : module(std::move(module)), stepLimit(stepLimit),
        hasVariables(!moduleVariables(this->module).empty()) {}

  bool isMicroscope() const override { return true; }

  Result<void> reset() override {
    control = {};
    hook = {};
    if (program && !hasVariables)
      return freeAll();
    program.reset();
    machine.emplace();
    machine->setStepLimit(stepLimit);
    allocations.clear();
    auto loaded = machine->load(module);
    if (!loaded)
      return loaded.error();
    program = std::move(*loaded);
    return {};
  }

  Result<DeviceAddress> allocate(std::size_t bytes) override {
    auto address = machine->allocate(bytes);
    if (address)
      allocations.push_back(*address);
    return address;
  }

  Result<void> write(DeviceAddress to, std::span<const std::byte> from) override {
    auto view = machine->view(to, from.size());
    if (!view)
      return view.error();
    std::memcpy(view->data(), from.data(), from.size());
    return {};
  }

  Result<void> read(std::span<std::byte> to, DeviceAddress from) override {
    auto view = machine->view(from, to.size());
    if (!view)
      return view.error();
    std::memcpy(to.data(), view->data(), to.size());
    return {};
  }

  Result<void> launch(std::string_view entry, const LaunchShape &shape,
                      std::span<const std::byte> parameters) override {
    std::uint64_t before = machine->executedThreadInstructions();
    auto fault = machine->run(*program, entry, shape, parameters, schedule);
    executedSoFar += machine->executedThreadInstructions() - before;
    if (fault && fault->kind == emulator::FaultKind::StepLimit)
      return Error{fmt::format("{}: {}; given up after {} warp-instructions (--step-limit)", entry,
                               fault->message, stepLimit)};
    if (fault)
      return Error{fmt::format("{}: {}", entry, fault->message)};
    return {};
  }

  Result<DeviceAddress> allocateControl(std::uint64_t word) override {
    auto address = allocate(sizeof word);
    if (!address)
      return address;
    auto view = machine->view(*address, sizeof word);
    if (!view)
      return view.error();
    // Kept, so that a poll hook need not call into the running machine.
    control = *view;
    std::memcpy(control.data(), &word, sizeof word);
    machine->watchReads(*address, [this](std::uint64_t index) {
      if (hook)
        hook(index);
    });
    return address;
  }

  Result<void> writeControl(std::uint64_t word) override {
    std::memcpy(control.data(), &word, sizeof word);
    return {};
  }

  void setPollHook(PollHook newHook) override { hook = std::move(newHook); }
  void setSchedule(const emulator::Schedule &newSchedule) override { schedule = newSchedule; }

  void setStepLimit(std::uint64_t limit) override {
    stepLimit = limit;
    if (machine)
      machine->setStepLimit(limit);
  }
  std::uint64_t executed() const override { return executedSoFar; }

private:
  Result<void> freeAll() {
    machine->watchReads(0, {});
    for (DeviceAddress address : allocations)
      if (auto freed = machine->free(address); !freed)
        return freed;
    allocations.clear();
    return {};
  }

  ptx::Module module;
  std::uint64_t stepLimit, executedSoFar = 0;
  bool hasVariables;
  std::vector<DeviceAddress> allocations;
  std::optional<emulator::Machine> machine;
  std::shared_ptr<const emulator::Program> program;
  std::span<std::byte> control;
  PollHook hook;
  emulator::Schedule schedule;
};

} // namespace

Result<std::unique_ptr<Target>> openMicroscope(const bundle::Bundle &bundle,
                                               std::uint64_t stepLimit) {
  auto text = ptxOf(bundle);
  if (!text)
    return text.error();
  auto module = parsePtx(withVariableReader(*text), "the bundle's PTX");
  if (!module)
    return module.error();
  return std::unique_ptr<Target>(std::make_unique<Microscope>(std::move(*module), stepLimit));
}

} // namespace tally::verify
