#include "engine/high_footprints.h"

namespace tally::hooks {

void HighFootprints::look(const CudaApi &api, StreamState &stream, std::uint64_t key,
                          const Use &use) {
  InHook inside;
  if (!concerns(api, stream))
    return;
  if (isLarge(key))
    return activity.scopes().headroom().noteLarge(runtime::SteadyClock()());
  std::optional<KernelUse> found = use();
  constexpr std::uint64_t maxThreads = 1024; // the limit of every architecture
  if (found && (found->shape.grid.count() == 0 || found->shape.block.count() == 0 ||
                found->shape.block.count() > maxThreads))
    return; // CUDA refuses the launch
  runtime::Headroom::Asked asked;
  asked.known = found.has_value();
  if (found)
    asked = headroom().ask(found->function, found->shape, found->together);
  see(stream, asked);
  keep(asked.fits ? key : key | large);
}

void HighFootprints::keep(std::uint64_t key) {
  std::atomic<std::uint64_t> *two = placesOf(key);
  two[1].store(two[0].exchange(key), std::memory_order_release);
}

void HighFootprints::lookAtLaunch(const CudaApi &api, StreamState &stream, std::uint64_t key,
                                  const LaunchRequest &request) {
  look(api, stream, key, [&] { return useOf(api, request); });
}

void HighFootprints::streamLeaves(StreamState &stream) {
  if (runtime::HighStream *high = stream.high.load())
    activity.scopes().headroom().noteGone(*high);
  forget();
}

std::optional<KernelUse> HighFootprints::useOf(const CudaApi &api, const LaunchRequest &request) {
  auto function = attributesOf(registry.find(api, request.function), activity.onDevice().number());
  if (!function)
    return std::nullopt;
  return KernelUse{*function, shapeOf(request.grid, request.block, request.sharedBytes),
                   request.cooperative || isCooperative(request.attributes)};
}

void HighFootprints::see(StreamState &stream, const runtime::Headroom::Asked &asked) {
  runtime::RequestScopeTracker &scopes = activity.scopes();
  if (runtime::HighStream *high = activity.highOf(stream))
    scopes.headroom().noteLaunchOn(*high);
  if (!scopes.headroom().see(asked))
    scopes.headroom().noteLarge(runtime::SteadyClock()());
}

void HighFootprints::graph(const CudaApi &api, StreamState &stream, ExecutableGraph *graph) {
  InHook inside;
  if (!concerns(api, stream))
    return;
  runtime::Headroom::Asked none;
  none.known = false;
  see(stream, graph ? graph->useIn(headroom()) : none);
}

void HighFootprints::unknown(const CudaApi &api, StreamState &stream) {
  graph(api, stream, nullptr);
}

void HighFootprints::ofDriver(const CudaApi &api, StreamState &stream) {
  InHook inside;
  if (concerns(api, stream))
    activity.scopes().headroom().seeOfDriver();
}

} // namespace tally::hooks
