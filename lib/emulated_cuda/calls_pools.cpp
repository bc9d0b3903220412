// Memory in stream order: cudaMallocAsync and pools. Memory is allocated during the call and freed
// in stream order; pools differ only in their handles and attributes.
#include "calls.h"
#include "memory.h"
#include "streams.h"

#include <cstring>

namespace tally::hooks::emulated {

namespace {

struct Pool {
  std::uint64_t releaseThreshold = 0;
  int reuse[3] = {1, 1, 1}; ///< cudaMemPoolReuseFollowEventDependencies and the two after it
};

Pool &defaultPool() {
  static Pool pool;
  return pool;
}
cudaMemPool_t handleOf(Pool &pool) { return reinterpret_cast<cudaMemPool_t>(&pool); }

} // namespace

cudaError_t Calls::cudaMallocAsync(void **result, size_t bytes, cudaStream_t stream) {
  return served([&](runtime::EmulatorDevice &device) {
    Stream *found = Streams::get().find(stream);
    if (!found)
      return cudaErrorInvalidResourceHandle;
    if (found->capture) {
      cudaError_t error = Memory::get().allocateForGraph(bytes, result);
      return error == cudaSuccess ? submit(device, *found, cudaGraphNodeTypeMemAlloc, {}) : error;
    }
    return Memory::get().allocate(bytes, MemoryKind::Device, 0, result);
  });
}

cudaError_t Calls::cudaMallocFromPoolAsync(void **result, size_t bytes, cudaMemPool_t,
                                           cudaStream_t stream) {
  return cudaMallocAsync(result, bytes, stream);
}

cudaError_t Calls::cudaFreeAsync(void *pointer, cudaStream_t stream) {
  return served([&](runtime::EmulatorDevice &device) {
    if (Memory::get().find(pointer).begin != reinterpret_cast<std::uintptr_t>(pointer))
      return cudaErrorInvalidValue;
    return submit(device, stream, cudaGraphNodeTypeMemFree,
                  [pointer](runtime::EmulatorDevice &to, runtime::StreamId id) {
                    return to.enqueue(id, [pointer]() -> Result<void> {
                      if (Memory::get().release(pointer, MemoryKind::Device, MemoryKind::Managed) !=
                          cudaSuccess)
                        return Error{"cudaFreeAsync: the memory was freed before"};
                      return {};
                    });
                  });
  });
}

cudaError_t Calls::cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int) {
  *pool = handleOf(defaultPool());
  return cudaSuccess;
}

cudaError_t Calls::cudaDeviceGetMemPool(cudaMemPool_t *pool, int) {
  *pool = handleOf(defaultPool());
  return cudaSuccess;
}

cudaError_t Calls::cudaDeviceSetMemPool(int, cudaMemPool_t) { return cudaSuccess; }

cudaError_t Calls::cudaMemPoolCreate(cudaMemPool_t *pool, const cudaMemPoolProps *) {
  return served([&](runtime::EmulatorDevice &) {
    *pool = handleOf(*new Pool); // until cudaMemPoolDestroy
    return cudaSuccess;
  });
}

cudaError_t Calls::cudaMemPoolDestroy(cudaMemPool_t handle) {
  auto *pool = reinterpret_cast<Pool *>(handle);
  if (!pool || pool == &defaultPool())
    return remember(cudaErrorInvalidValue);
  delete pool;
  return cudaSuccess;
}

cudaError_t Calls::cudaMemPoolTrimTo(cudaMemPool_t, size_t) { return cudaSuccess; }

cudaError_t Calls::cudaMemPoolSetAccess(cudaMemPool_t, const cudaMemAccessDesc *, size_t) {
  return cudaSuccess;
}

cudaError_t Calls::cudaMemPoolSetAttribute(cudaMemPool_t handle, cudaMemPoolAttr attribute,
                                           void *value) {
  auto &pool = *reinterpret_cast<Pool *>(handle);
  int index =
      static_cast<int>(attribute) - static_cast<int>(cudaMemPoolReuseFollowEventDependencies);
  if (attribute == cudaMemPoolAttrReleaseThreshold)
    std::memcpy(&pool.releaseThreshold, value, sizeof(pool.releaseThreshold));
  else if (index >= 0 && index < 3)
    std::memcpy(&pool.reuse[index], value, sizeof(int));
  return cudaSuccess;
}

cudaError_t Calls::cudaMemPoolGetAttribute(cudaMemPool_t handle, cudaMemPoolAttr attribute,
                                           void *value) {
  auto &pool = *reinterpret_cast<Pool *>(handle);
  int index =
      static_cast<int>(attribute) - static_cast<int>(cudaMemPoolReuseFollowEventDependencies);
  if (index >= 0 && index < 3) {
    std::memcpy(value, &pool.reuse[index], sizeof(int));
    return cudaSuccess;
  }
  std::uint64_t answer = attribute == cudaMemPoolAttrReleaseThreshold
                             ? pool.releaseThreshold
                             : std::uint64_t{Memory::get().used()};
  std::memcpy(value, &answer, sizeof(answer));
  return cudaSuccess;
}

} // namespace tally::hooks::emulated
