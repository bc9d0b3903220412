#include "work/device_info.h"

#include "base/duration_estimate.h"
#include "base/uuid_text.h"
#include "device/bandwidth.h"
#include "state/api_calls.h"
#include "state/settings.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>

namespace tally::hooks {

namespace {

/// The resources of an SM; an emulator's SMs have none.
Result<void> readSms(const CudaApi &api, int device, runtime::DeviceInfo &facts) {
  constexpr std::array<cudaDeviceAttr, 6> wanted = {cudaDevAttrMaxThreadsPerMultiProcessor,
                                                    cudaDevAttrMaxRegistersPerMultiprocessor,
                                                    cudaDevAttrMaxSharedMemoryPerMultiprocessor,
                                                    cudaDevAttrMemoryClockRate,
                                                    cudaDevAttrGlobalMemoryBusWidth,
                                                    cudaDevAttrMaxBlocksPerMultiprocessor};
  std::array<int, wanted.size()> values{};
  for (std::size_t i = 0; i < wanted.size(); ++i)
    TALLY_API_TRY(api, cudaDeviceGetAttribute, &values[i], wanted[i], device);
  facts.threadsPerSm = static_cast<std::uint32_t>(values[0]);
  facts.registersPerSm = static_cast<std::uint32_t>(values[1]);
  facts.sharedBytesPerSm = static_cast<std::uint32_t>(values[2]);
  facts.bandwidth = runtime::bandwidthOf(values[3], values[4]);
  facts.blocksPerSm = static_cast<std::uint32_t>(values[5]);
  facts.launchTurn = runtime::usualLaunchTurn;
  return {};
}

} // namespace

Result<runtime::DeviceInfo> readDeviceInfo(const CudaApi &api, int device) {
  runtime::DeviceInfo facts;
  cudaDeviceProp properties{};
  TALLY_API_TRY(api, cudaGetDeviceProperties, &properties, device);
  const auto &uuid = properties.uuid.bytes;
  if (std::any_of(std::begin(uuid), std::end(uuid), [](char each) { return each != 0; }))
    facts.uuid = runtime::uuidText(uuid);
  if (!Settings::get().emulator.isOn) {
    facts.name = properties.name;
    TALLY_API_TRY(api, cudaDriverGetVersion, &facts.driverVersion);
  }
  constexpr std::array<cudaDeviceAttr, 4> wanted = {
      cudaDevAttrComputeCapabilityMajor, cudaDevAttrComputeCapabilityMinor,
      cudaDevAttrMultiProcessorCount, cudaDevAttrMaxSharedMemoryPerBlockOptin};
  std::array<int, wanted.size()> values{};
  for (std::size_t i = 0; i < wanted.size(); ++i)
    TALLY_API_TRY(api, cudaDeviceGetAttribute, &values[i], wanted[i], device);
  if (!Settings::get().emulator.isOn)
    if (Result<void> read = readSms(api, device, facts); !read)
      return read.error();
  facts.arch = static_cast<std::uint32_t>(values[0] * 10 + values[1]);
  facts.smCount = static_cast<std::uint32_t>(values[2]);
  facts.maxSharedBytesPerBlock = static_cast<std::uint32_t>(values[3]);
  return facts;
}

void *currentContext(const CudaApi &api) {
  using CurrentContext = int (*)(void **);
  void *context = nullptr;
  if (auto current = reinterpret_cast<CurrentContext>(driverEntry(api, "cuCtxGetCurrent")))
    current(&context);
  return context;
}

} // namespace tally::hooks
