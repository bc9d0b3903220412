// The resources that high-priority launches take of an SM. The runtime is told of them, and pausing
// work leaves headroom for them. A launch like an earlier one costs a hash of its request and a
// table lookup, without a lock.
#ifndef TALLY_LIB_HOOKS_ENGINE_HIGH_FOOTPRINTS_H
#define TALLY_LIB_HOOKS_ENGINE_HIGH_FOOTPRINTS_H

#include "engine/activity.h"
#include "state/captures.h"
#include "work/graphs.h"
#include "work/kernel_launch.h"
#include "work/kernel_use.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

namespace tally::hooks {

/// Exists once there is best-effort work that may pause. Each call is made before its launch or
/// copy is put on a high-priority stream. Thread-safe. Never destroyed: threads may use it as long
/// as the process lives.
class HighFootprints {
public:
  HighFootprints(Activity &activity, Registry &registry, const Captures &captures)
      : activity(activity), registry(registry), captures(captures) {}

  /// A launch of a kernel by the program; `request` gives the LaunchRequest. It is called a second
  /// time where the launch is not known: values that are not passed on stay in registers.
  template <class Request>
  [[gnu::always_inline]] void launch(const CudaApi &api, StreamState &stream,
                                     const Request &request) {
    const LaunchRequest asked = request();
    bool together = asked.cooperative || isCooperative(asked.attributes);
    std::uint64_t key =
        keyOf(stream, asked.function, asked.grid, asked.block, asked.sharedBytes, together);
    if (!isKnown(key)) [[unlikely]]
      lookAtLaunch(api, stream, key, request());
  }
  /// A launch by a library; `use` gives an optional<KernelUse>, nothing where the use is not known.
  template <class Use>
  void foreign(const CudaApi &api, StreamState &stream, const void *function, dim3 grid, dim3 block,
               std::size_t sharedBytes, Use use) {
    std::uint64_t key = keyOf(stream, function, grid, block, sharedBytes, false);
    if (!isKnown(key))
      look(api, stream, key, use);
  }
  /// A launch of a graph; nullptr: nothing is known of the graph.
  void graph(const CudaApi &api, StreamState &stream, ExecutableGraph *graph);
  /// A launch whose resources are not known.
  void unknown(const CudaApi &api, StreamState &stream);
  /// A copy or fill that the driver may make with a kernel.
  void ofDriver(const CudaApi &api, StreamState &stream);

  /// A stream is about to be destroyed: its handle may then name another stream.
  void streamLeaves(StreamState &stream);
  /// Handles may name other kernels from now on.
  void forget() {
    for (std::atomic<std::uint64_t> &each : seen)
      each.store(0, std::memory_order_relaxed);
  }
  const runtime::Headroom &headroom() const { return activity.scopes().headroom(); }

private:
  using Use = std::function<std::optional<KernelUse>()>;
  static constexpr std::size_t places = 1024;
  static constexpr std::uint64_t large = 1; ///< set in an entry whose launch does not fit

  static bool isCooperative(std::span<const cudaLaunchAttribute> attributes) {
    for (const cudaLaunchAttribute &each : attributes)
      if (each.id == cudaLaunchAttributeCooperative && each.val.cooperative != 0)
        return true;
    return false;
  }
  /// Even, and not 0. Two different launches have the same key with a chance of one in 2^62 and are
  /// then taken for one; a pause still ends by its deadline.
  static std::uint64_t keyOf(const StreamState &stream, const void *function, dim3 grid, dim3 block,
                             std::size_t sharedBytes, bool together) {
    std::uint64_t key = reinterpret_cast<std::uint64_t>(function) * 0x9e3779b97f4a7c15u +
                        reinterpret_cast<std::uint64_t>(&stream) * 0x8ebc6af09c88c6e3u +
                        (grid.x | std::uint64_t{grid.y} << 32) * 0xbf58476d1ce4e5b9u +
                        (grid.z | std::uint64_t{block.x} << 32) * 0x94d049bb133111ebu +
                        (block.y | std::uint64_t{block.z} << 32) * 0xd6e8feb86659fd93u +
                        (sharedBytes * 2 + (together ? 1 : 0)) * 0xa0761d6478bd642fu;
    key = (key ^ key >> 32) * 0xe7037ed1a0b428dbu;
    return (key ^ key >> 29) << 1 | std::uint64_t{1} << 63;
  }
  /// Two adjacent places, in one cache line.
  std::atomic<std::uint64_t> *placesOf(std::uint64_t key) { return &seen[key & (places - 2)]; }
  bool isKnown(std::uint64_t key) {
    std::atomic<std::uint64_t> *two = placesOf(key);
    return two[0].load(std::memory_order_acquire) == key ||
           two[1].load(std::memory_order_acquire) == key;
  }
  bool isLarge(std::uint64_t key) { return isKnown(key | large); }
  void keep(std::uint64_t key);
  bool concerns(const CudaApi &api, const StreamState &stream) const {
    return stream.device == activity.onDevice().number() && !captures.takesPart(api, stream.handle);
  }
  void look(const CudaApi &api, StreamState &stream, std::uint64_t key, const Use &use);
  void lookAtLaunch(const CudaApi &api, StreamState &stream, std::uint64_t key,
                    const LaunchRequest &request);
  std::optional<KernelUse> useOf(const CudaApi &api, const LaunchRequest &request);
  void see(StreamState &stream, const runtime::Headroom::Asked &asked);

  Activity &activity;
  Registry &registry;
  const Captures &captures;
  alignas(64) std::array<std::atomic<std::uint64_t>, places> seen{}; // keys, with bit `large`
};

} // namespace tally::hooks

#endif
