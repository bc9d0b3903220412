// What launches of high priority take of an SM: told to the runtime, whose pausing work leaves room
// for them. A launch like one that was seen before costs a hash of what it asks for and a look into
// a table; no lock.
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

/// Once there is best-effort work that may pause. Each call is made before what it speaks of is
/// put on a stream of high priority. Thread-safe. Never destroyed: threads may be in it as long as
/// the process lives.
class HighFootprints {
public:
  HighFootprints(Activity &activity, Registry &registry, const Captures &captures)
      : activity(activity), registry(registry), captures(captures) {}

  /// A launch of a kernel by the program; `request` gives the LaunchRequest. It is asked a second
  /// time where the launch is not known: what is not handed on stays in registers.
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
  /// By a library; `use` gives an optional<KernelUse>: nothing where that is not known.
  template <class Use>
  void foreign(const CudaApi &api, StreamState &stream, const void *function, dim3 grid, dim3 block,
               std::size_t sharedBytes, Use use) {
    std::uint64_t key = keyOf(stream, function, grid, block, sharedBytes, false);
    if (!isKnown(key))
      look(api, stream, key, use);
  }
  /// Of a graph; nullptr: nothing is known of it.
  void graph(const CudaApi &api, StreamState &stream, ExecutableGraph *graph);
  /// A launch of which nothing is known.
  void unknown(const CudaApi &api, StreamState &stream);
  /// A copy or fill that may be a kernel of the driver's.
  void ofDriver(const CudaApi &api, StreamState &stream);

  /// A stream is about to be destroyed: its handle may be another's then.
  void streamLeaves(StreamState &stream);
  /// Kernels may have become others.
  void forget() {
    for (std::atomic<std::uint64_t> &each : seen)
      each.store(0, std::memory_order_relaxed);
  }
  const runtime::Headroom &headroom() const { return activity.scopes().headroom(); }

private:
  using Use = std::function<std::optional<KernelUse>()>;
  static constexpr std::size_t places = 1024;
  static constexpr std::uint64_t large = 1; ///< of an entry: it does not fit

  static bool isCooperative(std::span<const cudaLaunchAttribute> attributes) {
    for (const cudaLaunchAttribute &each : attributes)
      if (each.id == cudaLaunchAttributeCooperative && each.val.cooperative != 0)
        return true;
    return false;
  }
  /// Even, and not 0. What two launches that differ have in common by chance of one in 2^62 is
  /// taken for one; a pause ends by its deadline all the same.
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
  /// Two places beside each other, in one line of the cache.
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
  alignas(64) std::array<std::atomic<std::uint64_t>, places> seen{}; // keys; `large` or not
};

} // namespace tally::hooks

#endif
