// A CUDA runtime without a GPU: each stream is a thread that runs the stream's operations, device
// memory is host memory, and kernels are functions of the test. It keeps CUDA's rules of order and
// no others, so that the hooks alone cause any wrong order that a test sees.
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

/// The arguments of a launch.
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
  /// Number of copies that the driver-level hook would take for a library's.
  std::atomic<int> copiesFromOutside{0};
  /// The streams of fills, and of copies from memory that is not pageable; guarded by the mutex.
  std::vector<cudaStream_t> copyStreams;
  /// Number of queries of destroyed streams, which crash the real runtime.
  std::atomic<int> queriesOfDestroyed{0};
  /// Number of calls that made a capture invalid: records and launches on the legacy stream while a
  /// blocking stream is captured, and queries of a captured stream's flags.
  std::atomic<int> spoiltCaptures{0};
  /// Returns how often the program asked whether the stream is idle.
  int queriesOf(cudaStream_t stream) {
    std::unique_lock lock(mutex);
    return find(stream).queries;
  }
  /// Returns the event that was last recorded on the stream.
  cudaEvent_t lastRecordOn(cudaStream_t stream) {
    std::unique_lock lock(mutex);
    return find(stream).lastRecord;
  }
  /// Returns the number of events recorded on the stream.
  int recordsOn(cudaStream_t stream) {
    std::unique_lock lock(mutex);
    return find(stream).records;
  }
  FakeCuda();
  ~FakeCuda();
  /// The table of calls; they go to the newest object.
  const hooks::CudaApi &api() const { return table; }

  struct Kernel {
    std::vector<std::size_t> parameterSizes;
    std::function<void(const FakeLaunch &)> run;
    int maxThreads = 1024;
    int registers = 16;
  };
  void addKernel(const std::string &name, Kernel kernel);

  /// Names of finished operations, in the order of their ends.
  std::vector<std::string> log();
  void note(const std::string &what);
  /// Waits until all operations put on streams so far are done. (A storm of requests puts more on
  /// one stream all the time.)
  void settle();
  /// Does the same for the streams of the highest priority: then the requests to yield have
  /// arrived.
  void settleControl();
  /// From now on every query of a stream returns this error, as after a fault.
  void fail(cudaError_t with) { failure = with; }
  std::map<std::string, std::map<int, int>> attributes(); ///< set, by entry
  float msOfOperation = 0.01f; ///< duration of each operation between two events
  float msBetween = 0; ///< likewise: the additional time between two events with several operations
  std::atomic<int> pageableQueries{0};
  std::atomic<int> attributeQueries{0};   ///< of kernels
  std::function<void()> atAttributeQuery; ///< called first, where set
  /// The calling thread's device; there are two devices.
  static int &currentDevice();
  static bool &hasContext(); ///< the calling thread, by cudaSetDevice
  /// The calling thread's last error, as cudaGetLastError() returns it.
  static cudaError_t &lastError();
  static cudaError_t failed(cudaError_t status) { return lastError() = status; }
  static constexpr int highestPriority = -5;
  /// By kernel name: the devices on which it was launched.
  std::map<std::string, std::set<int>> devicesOf;
  /// By kernel name: the streams on which it was launched; guarded by the mutex. The legacy stream
  /// is nullptr.
  std::map<std::string, std::set<cudaStream_t>> streamsOf;
  std::atomic<int> resets{0};
  std::atomic<bool> hasNoMemory{false}; ///< out of device memory, and of mapped memory
  bool driverTellsGraphs = false;       ///< there is a driver below for calls of graphs
  bool driverHasGreenContexts = false;  ///< likewise
  std::atomic<int> greenContexts{0};    ///< live green contexts; a device with one cannot be reset
  /// Makes these eight bytes host memory, as cudaPointerGetAttributes has it.
  void pin(const void *memory);
  bool isDestroyed(cudaEvent_t event);

  /// The newest object, on which the table's functions act.
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
    std::deque<Operation> operations; ///< the front operation runs or waits
    std::thread thread;
  };
  struct Event {
    Stream *stream = nullptr;
    std::uint64_t sequence = 0; ///< sequence number of the newest record; 0: none
    int device = 0;
  };

  void settleWhere(const std::function<bool(const Stream &)> &meant);
  /// Puts an operation on the stream; returns its sequence number.
  std::uint64_t put(cudaStream_t stream, std::function<void()> run,
                    std::function<bool()> ready = {});
  bool isAllocated(const void *pointer) const; ///< under the mutex
  bool isPinned(const void *pointer) const;    ///< under the mutex
  bool isDone(const Stream &stream, std::uint64_t sequence) const;
  bool mayStart(const Stream &stream, const Operation &operation) const;
  void serve(Stream &stream);
  Stream &find(cudaStream_t handle);
  /// Returns whether the handle is the legacy stream and a blocking stream is captured.
  bool isLegacyCaptured(cudaStream_t handle) const;
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
