// A grid of workers of one kernel on the emulator, with its own state and control word.
#ifndef TALLY_UNITTESTS_VERIFY_WORK_GRID_H
#define TALLY_UNITTESTS_VERIFY_WORK_GRID_H

#include "input.h"
#include "ptx_text.h"

#include "tally/bundle/abi.h"
#include "tally/emulator/machine.h"
#include "tally/runtime/control_word.h"
#include "tally/runtime/variant_launch.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cstring>
#include <string>
#include <vector>

namespace tally::verify {

/// Runs a kernel `work(.param .u64 done, .param .u64 count)`; `done` has a word for each block, and
/// two more.
class WorkGrid {
public:
  /// `stay`: see tally_launch_params.
  WorkGrid(const char *kernel, Kind kind, std::uint32_t blocks, std::uint32_t stay = 0,
           std::uint64_t pollPeriod = defaultPollPeriod)
      : entry(bundle::entryName("work", kind)) {
    auto bundle = rewriteToBundle(kernel, "work.ptx", {}, pollPeriod);
    REQUIRE_MESSAGE(bundle, bundle.error().message);
    auto text = ptxOf(*bundle);
    REQUIRE(text);
    auto module = parsePtx(std::string(*text), "work.ptx");
    REQUIRE(module);
    auto loaded = machine.load(*module);
    REQUIRE(loaded);
    program = *loaded;
    done = allocate(blocks * 4);
    count = allocate(8);
    state = allocate(sizeof(tally_launch_state));
    control = allocate(8);
    tell({});
    parameters.resize(16 + sizeof(tally_launch_params));
    runtime::VariantLaunch launch(kind, shape(blocks), 1, blocks);
    tally_launch_params params = launch.next().params;
    params.control = control;
    params.state = state;
    params.stay = stay;
    std::memcpy(parameters.data(), &done, 8);
    std::memcpy(parameters.data() + 8, &count, 8);
    std::memcpy(parameters.data() + 16, &params, sizeof params);
  }

  static LaunchShape shape(std::uint32_t grid) { return {{grid, 1, 1}, {1, 1, 1}, 0}; }
  std::uint32_t &word(emulator::DevicePtr base, std::uint32_t index) {
    auto view = machine.view(base + 4 * index, 4);
    REQUIRE(view);
    return *reinterpret_cast<std::uint32_t *>(view->data());
  }
  std::uint32_t read(emulator::DevicePtr base, std::uint32_t index) {
    return std::atomic_ref(word(base, index)).load();
  }
  std::uint32_t live() { return read(state, 1); }
  std::uint32_t taken() { return read(state, 0); }
  void tell(const runtime::ControlFields &fields) {
    auto view = machine.view(control, 8);
    REQUIRE(view);
    std::atomic_ref(*reinterpret_cast<std::uint64_t *>(view->data()))
        .store(runtime::encodeControl(fields));
  }
  void run(std::uint32_t workers, const emulator::Schedule &schedule) {
    auto fault = machine.run(*program, entry, shape(workers), parameters, schedule);
    REQUIRE_MESSAGE(!fault, fault->message);
  }
  emulator::GridExecution launch(std::uint32_t workers) {
    return emulator::GridExecution(machine, program, entry, shape(workers), parameters);
  }
  /// Checks that every block ran once, and that the state is as the ABI says.
  void checkEnd(std::uint32_t blocks, std::uint32_t workers) {
    for (std::uint32_t i = 0; i < blocks; ++i)
      CHECK(read(done, i) == 1);
    CHECK(live() == 0);
    CHECK(taken() >= blocks);
    CHECK(taken() <= blocks + workers);
  }

  emulator::Machine machine;
  std::shared_ptr<const emulator::Program> program;
  emulator::DevicePtr done = 0, count = 0, state = 0, control = 0;

private:
  emulator::DevicePtr allocate(std::size_t bytes) {
    auto pointer = machine.allocate(bytes);
    REQUIRE(pointer);
    auto view = machine.view(*pointer, bytes);
    REQUIRE(view);
    std::memset(view->data(), 0, bytes);
    return *pointer;
  }

  std::string entry;
  std::vector<std::byte> parameters;
};

} // namespace tally::verify

#endif
