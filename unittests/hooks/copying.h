// A fake device that runs the hooks' own copy kernel.
#ifndef TALLY_UNITTESTS_HOOKS_COPYING_H
#define TALLY_UNITTESTS_HOOKS_COPYING_H

#include "harness.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

namespace tally::test {

constexpr std::uint64_t megabyte = 1 << 20;

/// Copies as the kernel does: each block copies a piece of the range. The guard variant polls
/// before each block.
inline void runCopy(const FakeLaunch &launch, bool isVariant) {
  auto to = launch.argument<std::byte *>(0), from = launch.argument<std::byte *>(1);
  auto bytes = launch.argument<std::uint64_t>(2);
  auto block = [&](std::uint32_t id) {
    std::uint64_t begin = std::uint64_t{id} * 16384;
    if (begin < bytes)
      std::memcpy(to + begin, from + begin, std::min<std::uint64_t>(bytes - begin, 16384));
  };
  if (!isVariant) {
    for (std::uint32_t id = 0; id < launch.grid.x; ++id)
      block(id);
    return;
  }
  auto params = launch.argument<tally_launch_params>(5);
  auto &state = *reinterpret_cast<tally_launch_state *>(params.state);
  auto &word = *reinterpret_cast<std::uint64_t *>(params.control);
  for (std::uint32_t id = 0; id < launch.grid.x; ++id)
    if (std::atomic_ref(word).load() >> TALLY_CONTROL_EPOCH_SHIFT > params.epoch)
      reinterpret_cast<std::uint32_t *>(params.list_out)[state.yielded++] = id;
    else
      block(id);
}

struct Copying : Harness {
  explicit Copying(const hooks::Settings &settings = bestEffort()) : Harness(settings) {
    const std::vector<std::size_t> copyBytes = {8, 8, 8, 4, 4}, fillBytes = {8, 8, 4, 4};
    for (const char *suffix : {"", "$tally_guard", "$tally_guard_resume", "$tally_persistent"}) {
      bool isVariant = *suffix != '\0';
      std::vector<std::size_t> copySizes = copyBytes, fillSizes = fillBytes;
      if (isVariant) {
        copySizes.push_back(sizeof(tally_launch_params));
        fillSizes.push_back(sizeof(tally_launch_params));
      }
      cuda.addKernel(std::string("tally_copy") + suffix,
                     {copySizes, [isVariant](const FakeLaunch &l) { runCopy(l, isVariant); }});
      cuda.addKernel(std::string("tally_fill") + suffix, {fillSizes, [](const FakeLaunch &) {}});
    }
    cuda.api().cudaMalloc(reinterpret_cast<void **>(&memory), 4 * megabyte);
    std::memset(memory, 1, 2 * megabyte);
    std::memset(memory + 2 * megabyte, 2, 2 * megabyte);
  }
  static hooks::Settings bestEffort() {
    hooks::Settings made = settings(true, 0, {Kind::Guard}, false, 1);
    made.runAheadMicroseconds = 0;
    return made;
  }
  std::byte *from() const { return memory; }
  std::byte *to() const { return memory + 2 * megabyte; }
  cudaError_t copy(std::byte *target, const std::byte *source, std::size_t bytes,
                   cudaMemcpyKind kind = cudaMemcpyDeviceToDevice) {
    return hooks.copies().copyAsync(cuda.api(), target, source, bytes, kind, stream);
  }
  /// Holds a kernel at the gate, so that later operations are queued.
  void hold(cudaStream_t on) {
    gated = true;
    CHECK(launch(on, &cell, 1) == cudaSuccess);
    gate.arrived();
    gated = false;
  }
  /// Makes operations behind a held kernel; returns how many of them kernels made.
  template <class Copy> std::uint64_t byKernels(const Copy &make) {
    std::uint64_t before = hooks.totals().copiesByKernels;
    hold(stream);
    CHECK(make() == cudaSuccess);
    gate.open(1);
    CHECK(synchronize(stream) == cudaSuccess);
    return hooks.totals().copiesByKernels - before;
  }

  std::byte *memory = nullptr;
  std::uint64_t cell = 0;
  cudaStream_t stream = Harness::stream(0);
};

} // namespace tally::test

#endif
