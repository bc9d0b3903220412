#ifndef TALLY_LIB_EMULATOR_MACHINE_STATE_H
#define TALLY_LIB_EMULATOR_MACHINE_STATE_H

#include "memory.h"
#include "textures.h"
#include "warp.h"

#include "tally/emulator/machine.h"

#include <atomic>
#include <mutex>

namespace tally::emulator {

struct Machine::State {
  explicit State(bool hostAddressed) : globalMemory(hostAddressed) {}
  GlobalMemory globalMemory;
  TextureTable textures;
  Printer printer;
  std::atomic<std::uint64_t> watchedWord{0};
  std::mutex watchMutex; ///< guards the observer and its count
  ReadObserver observer;
  std::uint64_t reads = 0;
  std::atomic<std::uint64_t> executed{0};
  std::atomic<std::uint64_t> stepLimit{defaultStepLimit};
  std::atomic<std::uint32_t> virtualSmCount{1};

  Environment environment();
  void watchedRead();
  /// Fills a launch. Returns a fault if the shape or the parameters do not fit the kernel.
  std::optional<Fault> prepare(Launch &launch, const Program &program, std::string_view kernel,
                               const LaunchShape &shape, std::span<const std::byte> parameters);
};

} // namespace tally::emulator

#endif
