// A CUDA runtime without a GPU: each stream is a thread that runs what was put on it, device memory
// is the host's, kernels are functions of the test. It keeps CUDA's rules of order, no others, so
// that what a test sees out of order is the hooks' doing.
#ifndef TALLY_UNITTESTS_HOOKS_FAKE_CUDA_H
#define TALLY_UNITTESTS_HOOKS_FAKE_CUDA_H

#include "tables/cuda_api.h"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace tally::test {

/// What a launch handed over.
struct FakeLaunch {
  std::string name;
  dim3 grid, block;
  std::vector<std::vector<std::byte>> arguments;
  bool cooperative = false;
  template <class T> T argument(std::size_t index) const {
    return *reinterpret_cast<const T *>(arguments[index].data());
  }
};

class FakeCuda {
public:
  /// Copies that the driver-level hook would take for a library's.
  std::atomic<int> copiesFromOutside{0};
  /// The streams of copies from other than pageable memory and of fills, under the mutex.
  std::vector<cudaStream_t> copyStreams;
  /// Questions about streams that are gone, which crash the real runtime.
  std::atomic<int> queriesOfDestroyed{0};
  /// Calls that made a capture invalid: records and launches on the legacy stream while a blocking
  /// one is captured, questions about the flags of one that is.
  std::atomic<int> spoiltCaptures{0};
  /// How often it was asked whether the stream is idle.
  int queriesOf(cudaStream_t stream) {
    std::unique_lock lock(mutex);
    return find(stream).queries;
  }
  /// The event that was recorded on it last.
  cudaEvent_t lastRecordOn(cudaStream_t stream) {
    std::unique_lock lock(mutex);
    return find(stream).lastRecord;
  }
  /// How many events were recorded on it.
  int recordsOn(cudaStream_t stream) {
    std::unique_lock lock(mutex);
    return find(stream).records;
  }
  FakeCuda();
  ~FakeCuda();
  /// The table; calls go to the object that was made last.
  const hooks::CudaApi &api() const { return table; }

  struct Kernel {
    std::vector<std::size_t> parameterSizes;
    std::function<void(const FakeLaunch &)> run;
    int maxThreads = 1024;
    int registers = 16;
  };
  void addKernel(const std::string &name, Kernel kernel);

  /// What ran, in the order in which it ended.
  std::vector<std::string> log();
  void note(const std::string &what);
  /// Waits until all that was put on streams so far is done. (A storm of requests puts more on one
  /// all the time.)
  void settle();
  /// The same of the streams of the highest priority: what stops best-effort work has arrived.
  void settleControl();
  /// From now on the device says this to whoever asks for its streams, as after a fault.
  void fail(cudaError_t with) { failure = with; }
  std::map<std::string, std::map<int, int>> attributes(); ///< set, by entry
  float msOfOperation = 0.01f;                            ///< what events say that each took
  float msBetween = 0; ///< likewise, what else is between two events with several operations
  std::atomic<int> pageableQueries{0};
  std::atomic<int> attributeQueries{0}; ///< of kernels
  /// The calling thread's device; there are two.
  static int &currentDevice();
  static bool &hasContext(); ///< the calling thread, by cudaSetDevice
  /// The calling thread's, as cudaGetLastError() has it.
  static cudaError_t &lastError();
  static cudaError_t failed(cudaError_t status) { return lastError() = status; }
  static constexpr int highestPriority = -5;
  /// On which devices kernels of that name were launched.
  std::map<std::string, std::set<int>> devicesOf;
  /// On which streams, under the mutex; the legacy stream is nullptr.
  std::map<std::string, std::set<cudaStream_t>> streamsOf;
  std::atomic<int> resets{0};
  std::atomic<bool> hasNoMemory{false}; ///< of its own, and mapped
  bool driverTellsGraphs = false;       ///< there is a driver beneath, as far as graphs go
  bool driverHasGreenContexts = false;  ///< likewise
  std::atomic<int> greenContexts{0};    ///< that there are; with one no device can be reset
  /// Makes these eight bytes host memory, as cudaPointerGetAttributes has it.
  void pin(const void *memory);
  bool isDestroyed(cudaEvent_t event);

  /// The object that the table's functions work on.
  static FakeCuda &current();

  /// What cudaGetKernel gives.
  static cudaKernel_t handleOf(const void *function) {
    return reinterpret_cast<cudaKernel_t>(reinterpret_cast<std::uintptr_t>(function) |
                                          std::uintptr_t{1} << 60);
  }

  // For the table's functions.
  std::vector<std::size_t> parameterSizes(const void *function);
  struct Operation {
    std::uint64_t sequence = 0;
    std::function<bool()> ready; ///< under the mutex
    std::function<void()> run;
  };
  struct Stream {
    cudaStream_t handle = nullptr;
    bool blocking = true;
    int priority = 0, device = 0;
    bool capturing = false, destroyed = false;
    int queries = 0, records = 0;
    cudaEvent_t lastRecord = nullptr;
    std::deque<Operation> operations; ///< the front one runs, or waits
    std::thread thread;
  };
  struct Event {
    Stream *stream = nullptr;
    std::uint64_t sequence = 0; ///< of the newest record; 0: none
    int device = 0;
  };

  void settleWhere(const std::function<bool(const Stream &)> &meant);
  /// Returns the sequence of the operation.
  std::uint64_t put(cudaStream_t stream, std::function<void()> run,
                    std::function<bool()> ready = {});
  bool isAllocated(const void *pointer) const; ///< under the mutex
  bool isPinned(const void *pointer) const;    ///< under the mutex
  bool isDone(const Stream &stream, std::uint64_t sequence) const;
  bool mayStart(const Stream &stream, const Operation &operation) const;
  void serve(Stream &stream);
  Stream &find(cudaStream_t handle);
  bool isLegacyCaptured(cudaStream_t handle) const; ///< it is the legacy one, and a blocking one is
  Stream &add(cudaStream_t handle, bool blocking, int priority);
  void waitFor(std::unique_lock<std::mutex> &lock, Stream &stream);
  cudaError_t launch(const void *function, dim3 grid, dim3 block, void **arguments,
                     cudaStream_t stream, bool cooperative);

  std::atomic<cudaError_t> failure{cudaSuccess};
  std::mutex mutex;
  std::condition_variable changed;
  std::uint64_t lastSequence = 0, nextHandle = 0x1000;
  bool stopping = false;
  std::map<cudaStream_t, std::unique_ptr<Stream>> streams;
  std::map<cudaEvent_t, Event> events;
  std::set<const void *> pinned;
  std::set<cudaEvent_t> destroyedEvents;
  std::map<void *, std::size_t> allocations; ///< the device's, and pinned ones
  std::map<const void *, std::string> functions;
  std::map<std::string, Kernel> kernels;
  std::map<std::string, std::map<int, int>> attributesSet;
  std::vector<std::string> done;

private:
  hooks::CudaApi table;
};

/// Makes the table's calls those of FakeCuda::current().
void setCalls(hooks::CudaApi &table);

/// The driver's entry point for green contexts, or nullptr. (fake_green_contexts.cpp)
void *greenContextEntry(const char *name);

} // namespace tally::test

#endif
