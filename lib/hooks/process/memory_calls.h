// Allocations in stream order, and allocations after which other processes see this one.
#ifndef TALLY_LIB_HOOKS_PROCESS_MEMORY_CALLS_H
#define TALLY_LIB_HOOKS_PROCESS_MEMORY_CALLS_H

#include "process/call_rules.h"
#include "process/served_device.h"
#include "state/captures.h"
#include "state/memory_account.h"
#include "state/settings.h"
#include "tables/cuda_api.h"
#include "work/queue_checks.h"

#include <cstddef>

namespace tally::hooks {

/// Thread-safe.
class MemoryCalls {
public:
  MemoryCalls(const Settings &settings, const Captures &captures, MemoryAccount &account,
              ServedDevice &served, CallRules &rules)
      : settings(settings), captures(captures), account(account), served(served), rules(rules) {}

  /// `call` allocates `bytes` bytes; `made` gives the piece. Work will follow, so other processes
  /// see this one before that work.
  template <class Call, class Made>
  cudaError_t allocate(const CudaApi &api, std::size_t bytes, Call call, Made made) {
    cudaError_t status = account.allocate(api, bytes, call, made);
    if (served.joinsAfter(status) && !settings.bestEffort)
      served.joinLater(api);
    return status;
  }
  template <class Call>
  cudaError_t allocateAsync(const CudaApi &api, void **made, std::size_t bytes, cudaStream_t handle,
                            Call call) {
    auto ordered = [&] { return rules.stream(api, handle, call); };
    // Memory that a graph will allocate does not belong to the process yet.
    if (!account.isOn() || captures.takesPart(api, handle))
      return ordered();
    return account.allocate(api, bytes, ordered,
                            [&] { return MemoryAccount::Piece{*made, bytes}; });
  }
  template <class Call>
  cudaError_t freeAsync(const CudaApi &api, void *memory, cudaStream_t handle, Call call) {
    auto mayQueue = [&] { return QueueChecks{api}.cudaFreeAsync(memory, handle); };
    auto ordered = [&] { return rules.queue(api, handle, mayQueue, call); };
    if (!account.isOn() || captures.takesPart(api, handle))
      return ordered();
    return account.release(memory, ordered);
  }

private:
  const Settings &settings;
  const Captures &captures;
  MemoryAccount &account;
  ServedDevice &served;
  CallRules &rules;
};

} // namespace tally::hooks

#endif
