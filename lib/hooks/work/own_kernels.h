// Copies and fills by kernels of the hooks, which have variants. CUDA's own copy cannot yield, so
// it must not go to the device before all preemptible work ahead of it is over. A kernel with a
// variant is sent ahead like any other launch, and is skipped and resumed likewise.
//
// Only for ranges that are known to lie in the memory of the one device or in pinned host memory.
// CUDA makes copies between devices, of managed or pageable memory (staging.h), and of ranges that
// overlap.
#ifndef TALLY_LIB_HOOKS_WORK_OWN_KERNELS_H
#define TALLY_LIB_HOOKS_WORK_OWN_KERNELS_H

#include "state/api_calls.h"
#include "state/captures.h"
#include "state/registry.h"
#include "tables/cuda_api.h"
#include "work/api_device.h"

#include "tally/bundle/bundle.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tally::hooks {

/// One launch of such a kernel.
struct OwnLaunch {
  KernelRecord *kernel = nullptr; ///< has `loaded` set
  std::string_view label;         ///< its name in a trace
  LaunchShape shape;
  std::vector<std::byte> parameters;
};

/// The plan by which a range is moved (kernels/copy_kernels.cu): a head of single bytes, units, a
/// tail.
struct CopyPlan {
  std::uint32_t head = 0, unit = 1, blocks = 1;
};
/// The plan of a copy; `from` and `to` are addresses. Returns nothing where the ranges overlap,
/// CUDA's own copy is faster, or there is nothing to copy.
std::optional<CopyPlan> planCopy(std::uint64_t to, std::uint64_t from, std::uint64_t bytes);
std::optional<CopyPlan> planFill(std::uint64_t to, std::uint64_t bytes);

/// The hooks' kernels of one device. Thread-safe.
class OwnKernels {
public:
  /// `kinds`: the kinds of variants that may be used.
  OwnKernels(const CudaApi &api, ApiDevice &device, const Captures &captures,
             std::span<const Kind> kinds)
      : api(api), device(device), captures(captures), kinds(kinds.begin(), kinds.end()),
        rangeOf(reinterpret_cast<RangeOf>(driverEntry(api, "cuMemGetAddressRange"))) {}
  OwnKernels(const OwnKernels &) = delete;
  OwnKernels &operator=(const OwnKernels &) = delete;

  /// cudaMemcpyAsync and cudaMemsetAsync by a kernel. Returns nothing where CUDA has to make the
  /// call. The first call that could use a kernel loads the kernels. While a capture is open or
  /// another thread loads them, CUDA makes the call, too.
  std::optional<OwnLaunch> copy(void *to, const void *from, std::size_t bytes, cudaMemcpyKind kind);
  std::optional<OwnLaunch> fill(void *to, int value, std::size_t bytes);
  /// A copy between ranges that the device can reach and that do not overlap.
  std::optional<OwnLaunch> launchCopy(void *to, const void *from, std::size_t bytes);
  /// The largest copy from or to host memory.
  static constexpr std::size_t mostOfHost = std::size_t{1} << 20;
  /// Whether the range lies in one allocation of the device's own memory.
  bool isWithin(const void *memory, std::size_t bytes) const {
    return isOwn(memory) && isOneAllocation(memory, bytes);
  }
  int deviceNumber() const { return device.number(); }

private:
  using RangeOf = int (*)(std::uint64_t *base, std::size_t *bytes, std::uint64_t address);
  enum class State : std::uint8_t { New, Usable, Unusable };

  bool isUsable();
  bool load();
  bool registerAll();
  bool add(void **handle, KernelRecord &kernel, const char *name);
  const char *addEntry(void **handle, std::string name);
  bool find(KernelRecord &kernel);
  const void *pinned(const void *memory, std::size_t bytes) const;
  bool isOwn(const void *memory) const;
  bool isOneAllocation(const void *memory, std::size_t bytes) const;
  static OwnLaunch launchOf(KernelRecord &kernel, std::string_view label, std::uint32_t blocks);

  const CudaApi &api;
  ApiDevice &device;
  const Captures &captures;
  const std::vector<Kind> kinds;
  /// The driver's cuMemGetAddressRange; nullptr where there is no driver.
  const RangeOf rangeOf;
  std::atomic<State> state{State::New};
  std::mutex loading;
  bundle::Bundle bundle;
  // Data that the CUDA runtime keeps pointers to.
  FatbinWrapper wrapper;
  std::vector<std::uint64_t> image; ///< 64-bit words, for the alignment
  std::deque<std::string> names;
  std::deque<char> addresses;
  KernelRecord copyKernel, fillKernel;
};

} // namespace tally::hooks

#endif
