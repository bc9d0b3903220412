// The first CUDA device as a Device, through the driver API: cuda_device.cpp, its functions in
// cuda_functions.cpp and its streams in cuda_streams.cpp.
#ifndef TALLY_LIB_RUNTIME_DEVICE_CUDA_DEVICE_H
#define TALLY_LIB_RUNTIME_DEVICE_CUDA_DEVICE_H

#include "device/cuda_driver.h"
#include "device/green_context.h"

#include "tally/runtime/device.h"

#include <atomic>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace tally::runtime {

struct CudaFunction {
  CUfunction handle = nullptr;
  std::string name;
  std::uint32_t staticShared = 0;
  std::atomic<std::uint32_t> dynamicAllowed{0}; ///< bytes for which the function was opted in
  Dim3 demanded{0, 0, 0}; ///< cluster that the function demands by .reqnctapercluster
  std::atomic<bool> largeClusters{false}; ///< opted in for clusters above the portable size
};

// The objects for which the ids of CudaDevice stand.
inline CUstream streamOf(StreamId id) {
  return reinterpret_cast<CUstream>(static_cast<std::uint64_t>(id));
}
inline CudaFunction &functionOf(FunctionId id) {
  return *reinterpret_cast<CudaFunction *>(static_cast<std::uint64_t>(id));
}

class CudaDevice final : public Device {
public:
  explicit CudaDevice(const CudaDriver &driver) : driver(driver) {}
  ~CudaDevice() override;
  Result<void> open();

  const DeviceInfo &info() const override { return facts; }
  Result<ModuleId> loadModule(const bundle::Bundle &bundle) override;
  Result<void> unloadModule(ModuleId module) override;
  Result<StreamId> adoptStream(std::uint64_t nativeStream) override;
  void releaseStream(StreamId stream) override;
  Result<AdoptedFunction> adoptFunction(std::uint64_t nativeFunction,
                                        std::string_view name) override;
  void releaseFunction(FunctionId function) override;
  Result<FunctionId> function(ModuleId module, std::string_view entry) override;
  Result<FunctionAttributes> attributes(FunctionId function) override;
  Result<std::uint32_t> residentBlocksPerSm(FunctionId function, Dim3 block,
                                            std::uint32_t dynamicSharedBytes) override;
  Result<DevicePtr> allocate(std::size_t bytes) override;
  Result<void> free(DevicePtr pointer) override;
  Result<MappedMemory> allocateMapped(std::size_t bytes) override;
  Result<StreamId> createStream(StreamPriority priority) override;
  Result<StreamId> createConfinedStream(std::uint32_t sms) override;
  Result<void> destroyStream(StreamId stream) override;
  Result<void> copyToDevice(StreamId stream, DevicePtr to,
                            std::span<const std::byte> from) override;
  Result<void> copyToHost(StreamId stream, std::span<std::byte> to, DevicePtr from) override;
  Result<void> fill(StreamId stream, DevicePtr to, std::byte value, std::size_t bytes) override;
  Result<void> writeValue(StreamId stream, DevicePtr to, std::uint64_t value) override;
  std::atomic<std::uint64_t> *trigger() override {
    return reinterpret_cast<std::atomic<std::uint64_t> *>(triggerWord.host);
  }
  Result<void> writeValueWhen(StreamId stream, std::uint64_t reached, DevicePtr to,
                              std::uint64_t value) override;
  bool mayWait() const override { return controlIsApart || areStreamsApart(); }
  bool areStreamsApart() const override { return streamCount < mostStreams; }
  Result<void> launch(StreamId stream, FunctionId function, const LaunchShape &shape,
                      std::span<const std::byte> parameters) override;
  Result<bool> isIdle(StreamId stream) override;
  Result<void> synchronize(StreamId stream) override;
  Result<bool> waitFor(StreamId later, StreamId earlier) override;

private:
  Result<void> makeCurrent();
  Result<void> describe();
  Result<CUmodule> loadImage(const bundle::Image &image);
  Result<FunctionId> addFunction(CUmodule module, CUfunction handle, std::string name);
  std::optional<std::vector<bundle::Parameter>> parametersOf(CUfunction handle) const;
  void countStreams();
  Result<void> allowShared(CudaFunction &function, std::uint32_t dynamicSharedBytes);
  Result<void> allowCluster(CudaFunction &function, const Dim3 &cluster);

  const CudaDriver &driver;
  const std::uint64_t serial = nextSerial.fetch_add(1);
  DeviceInfo facts;
  CUdevice device = 0;
  CUcontext context = nullptr;
  int lowest = 0, highest = 0; // stream priorities; the numerically lowest is the highest
  GreenStreams confined{&CudaDriver::find};
  MappedMemory triggerWord{};
  std::atomic<std::size_t> streamCount{0};
  std::size_t mostStreams = 0; ///< with fewer each has its own connection
  /// Streams of StreamPriority::Control have connections that no other streams share.
  std::atomic<bool> controlIsApart{false};

  std::mutex mutex; // guards the members below
  /// The functions of each module; nullptr has the adopted functions.
  std::map<CUmodule, std::list<CudaFunction>> modules;
  std::set<CUstream> streams;
  std::size_t adoptedStreams = 0;
  std::vector<void *> hostMemory;

  static inline std::atomic<std::uint64_t> nextSerial{1};
};

} // namespace tally::runtime

#endif
