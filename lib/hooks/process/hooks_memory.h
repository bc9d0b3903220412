// Memory in stream order, and memory whose allocation has others see the process. A part of
// hooks.h, which includes it.
#ifndef TALLY_LIB_HOOKS_PROCESS_HOOKS_MEMORY_H
#define TALLY_LIB_HOOKS_PROCESS_HOOKS_MEMORY_H

namespace tally::hooks {

template <class Call, class Made>
cudaError_t Hooks::allocate(const CudaApi &api, std::size_t bytes, Call call, Made made) {
  cudaError_t status = account.allocate(api, bytes, call, made);
  if (mayJoin.load(std::memory_order_relaxed) && status == cudaSuccess && !settings.bestEffort)
    joinLater(api);
  return status;
}

template <class Call>
cudaError_t Hooks::allocateAsync(const CudaApi &api, void **made, std::size_t bytes,
                                 cudaStream_t handle, Call call) {
  auto ordered = [&] { return stream(api, handle, call); };
  // What a graph will allocate is none of the process's yet.
  if (!account.isOn() || captures.takesPart(api, handle))
    return ordered();
  return account.allocate(api, bytes, ordered, [&] { return MemoryAccount::Piece{*made, bytes}; });
}

template <class Call>
cudaError_t Hooks::freeAsync(const CudaApi &api, void *memory, cudaStream_t handle, Call call) {
  auto mayQueue = [&] { return QueueChecks{api}.cudaFreeAsync(memory, handle); };
  auto ordered = [&] { return queue(api, handle, mayQueue, call); };
  if (!account.isOn() || captures.takesPart(api, handle))
    return ordered();
  return account.release(memory, ordered);
}

} // namespace tally::hooks

#endif
