// Limits the device memory that a best-effort process may allocate: a quota of its own, and a
// reserve that it leaves free for others. The account counts the program's requests. Memory that
// CUDA itself, libraries and graphs allocate does not count against the quota; the reserve uses the
// memory that is really free.
#ifndef TALLY_LIB_HOOKS_STATE_MEMORY_ACCOUNT_H
#define TALLY_LIB_HOOKS_STATE_MEMORY_ACCOUNT_H

#include "dispatch/arena_link.h"
#include "state/in_hook.h"
#include "state/settings.h"
#include "tables/cuda_api.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>

namespace tally::hooks {

/// Thread-safe.
class MemoryAccount {
public:
  /// One allocation, named by the handle that frees it.
  struct Piece {
    const void *handle = nullptr;
    std::size_t bytes = 0;
  };

  explicit MemoryAccount(const Settings &settings)
      : quota(settings.memory.quota), reserve(settings.memory.reserve),
        counts(settings.bestEffort) {}

  /// Whether allocations are counted: in best-effort processes.
  bool isOn() const { return counts || hasLimits(); }
  /// From now on calls `show` after each allocation on the device, and once now; an empty `show` is
  /// not called. `show` is called under a lock, and must not call back.
  void showTo(int device, std::function<void(const runtime::MemoryStatus &)> show);

  /// `call` allocates about `bytes` on the calling thread's device; `made` returns the piece.
  /// Beyond the quota or the reserve returns cudaErrorMemoryAllocation, which is then the thread's
  /// last error.
  template <class Call, class Made>
  cudaError_t allocate(const CudaApi &api, std::size_t bytes, Call call, Made made) {
    InHook inside;
    if (!isOn())
      return call();
    int device = 0;
    if (!take(api, bytes, device))
      return refuse(api);
    cudaError_t status = call();
    if (status == cudaSuccess)
      keep(made(), bytes, device);
    else
      giveBack(bytes, device);
    return status;
  }
  /// `call` frees the allocation with that handle.
  template <class Call> cudaError_t release(const void *handle, Call call) {
    if (!isOn())
      return call();
    // Forget the allocation first: as soon as the memory is free, another thread may get the same
    // address.
    Kept was = forget(handle);
    cudaError_t status = call();
    if (status != cudaSuccess && was.bytes != 0)
      keep({handle, was.bytes}, 0, was.device);
    return status;
  }
  /// cudaMemGetInfo: the process's share, and the part of it that is left.
  cudaError_t info(const CudaApi &api, std::size_t *free, std::size_t *total);
  /// All memory of the device is freed (cudaDeviceReset).
  void clear(int device);
  /// "memory: 4096 bytes, 8192 at most, of 65536; 2 refused"; empty where there is no limit.
  std::string statistics();

private:
  struct Kept {
    std::size_t bytes = 0;
    int device = 0;
  };
  struct Device {
    bool known = false;              ///< whether `limit` and `left` are known
    std::size_t limit = 0, left = 0; ///< the quota, and the reserve; 0: none
    std::size_t used = 0, most = 0;
  };

  Device &find(const CudaApi &api, int device);
  bool take(const CudaApi &api, std::size_t bytes, int &device);
  void keep(const Piece &piece, std::size_t taken, int device);
  void giveBack(std::size_t bytes, int device);
  Kept forget(const void *handle);
  cudaError_t refuse(const CudaApi &api);

  bool hasLimits() const { return !quota.isNone() || !reserve.isNone(); }
  void tell(int device);

  const MemoryAmount quota, reserve;
  const bool counts;
  std::mutex mutex; // guards the members below
  std::map<int, Device> devices;
  std::unordered_map<const void *, Kept> pieces;
  std::uint64_t refusals = 0;
  int shownDevice = -1;
  std::function<void(const runtime::MemoryStatus &)> show;
};

} // namespace tally::hooks

#endif
