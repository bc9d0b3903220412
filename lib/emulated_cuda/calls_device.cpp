// The one device: an sm_90 with as many multiprocessors as there are virtual SMs.
#include "calls.h"
#include "launch.h"
#include "memory.h"
#include "streams.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace tally::hooks::emulated {

namespace {

constexpr int threadsPerBlock = 1024, registers = 65536, gridX = 0x7fffffff, gridYZ = 65535;
constexpr int kilohertz = 20000; // about the host's speed; %clock counts warp-instructions
constexpr int cudaVersion = CUDART_VERSION;

struct AttributeValue {
  cudaDeviceAttr attribute;
  int value;
};
constexpr AttributeValue attributeValues[] = {
    {cudaDevAttrMaxThreadsPerBlock, threadsPerBlock},
    {cudaDevAttrMaxBlockDimX, 1024},
    {cudaDevAttrMaxBlockDimY, 1024},
    {cudaDevAttrMaxBlockDimZ, 64},
    {cudaDevAttrMaxGridDimX, gridX},
    {cudaDevAttrMaxGridDimY, gridYZ},
    {cudaDevAttrMaxGridDimZ, gridYZ},
    {cudaDevAttrMaxSharedMemoryPerBlock, sharedWithoutOptIn},
    {cudaDevAttrTotalConstantMemory, 65536},
    {cudaDevAttrWarpSize, 32},
    {cudaDevAttrMaxPitch, 0x7fffffff},
    {cudaDevAttrMaxRegistersPerBlock, registers},
    {cudaDevAttrClockRate, kilohertz},
    {cudaDevAttrTextureAlignment, 512},
    {cudaDevAttrGpuOverlap, 1},
    {cudaDevAttrCanMapHostMemory, 1},
    {cudaDevAttrComputeMode, cudaComputeModeDefault},
    {cudaDevAttrConcurrentKernels, 1},
    {cudaDevAttrMemoryClockRate, kilohertz},
    {cudaDevAttrGlobalMemoryBusWidth, 64},
    {cudaDevAttrL2CacheSize, 4 << 20},
    {cudaDevAttrMaxThreadsPerMultiProcessor, threadsPerSm},
    {cudaDevAttrAsyncEngineCount, 1},
    {cudaDevAttrUnifiedAddressing, 1},
    {cudaDevAttrTexturePitchAlignment, 32},
    {cudaDevAttrComputeCapabilityMajor, 9},
    {cudaDevAttrComputeCapabilityMinor, 0},
    {cudaDevAttrStreamPrioritiesSupported, 1},
    {cudaDevAttrGlobalL1CacheSupported, 1},
    {cudaDevAttrLocalL1CacheSupported, 1},
    {cudaDevAttrMaxSharedMemoryPerMultiprocessor, sharedPerSm},
    {cudaDevAttrMaxRegistersPerMultiprocessor, registers},
    {cudaDevAttrManagedMemory, 1},
    {cudaDevAttrHostNativeAtomicSupported, 1},
    {cudaDevAttrSingleToDoublePrecisionPerfRatio, 1},
    {cudaDevAttrConcurrentManagedAccess, 1},
    {cudaDevAttrComputePreemptionSupported, 1},
    {cudaDevAttrCanUseHostPointerForRegisteredMem, 1},
    {cudaDevAttrCooperativeLaunch, 1},
    {cudaDevAttrMaxSharedMemoryPerBlockOptin, sharedPerBlock},
    {cudaDevAttrHostRegisterSupported, 1},
    {cudaDevAttrDirectManagedMemAccessFromHost, 1},
    {cudaDevAttrMaxBlocksPerMultiprocessor, blocksPerSm},
    {cudaDevAttrReservedSharedMemoryPerBlock, sharedReserved},
    {cudaDevAttrMemoryPoolsSupported, 1},
    {cudaDevAttrClusterLaunch, 1},
};

cudaError_t checked(int device) {
  return device == 0 ? cudaSuccess : remember(cudaErrorInvalidDevice);
}

cudaDeviceProp properties(int smCount) {
  cudaDeviceProp all{};
  std::snprintf(all.name, sizeof(all.name), "Tally emulator");
  all.totalGlobalMem = Memory::get().total();
  all.sharedMemPerBlock = sharedWithoutOptIn;
  all.regsPerBlock = all.regsPerMultiprocessor = registers;
  all.warpSize = 32;
  all.memPitch = 0x7fffffff;
  all.maxThreadsPerBlock = threadsPerBlock;
  all.maxThreadsDim[0] = all.maxThreadsDim[1] = 1024;
  all.maxThreadsDim[2] = 64;
  all.maxGridSize[0] = gridX;
  all.maxGridSize[1] = all.maxGridSize[2] = gridYZ;
  all.totalConstMem = 65536;
  all.major = 9;
  all.textureAlignment = 512;
  all.texturePitchAlignment = 32;
  all.multiProcessorCount = smCount;
  all.canMapHostMemory = all.concurrentKernels = all.asyncEngineCount = 1;
  all.unifiedAddressing = all.streamPrioritiesSupported = all.managedMemory = 1;
  all.memoryBusWidth = 64;
  all.l2CacheSize = 4 << 20;
  all.maxThreadsPerMultiProcessor = threadsPerSm;
  all.globalL1CacheSupported = all.localL1CacheSupported = 1;
  all.sharedMemPerMultiprocessor = sharedPerSm;
  all.hostNativeAtomicSupported = all.concurrentManagedAccess = 1;
  all.computePreemptionSupported = all.canUseHostPointerForRegisteredMem = 1;
  all.cooperativeLaunch = all.directManagedMemAccessFromHost = all.hostRegisterSupported = 1;
  all.sharedMemPerBlockOptin = sharedPerBlock;
  all.maxBlocksPerMultiProcessor = blocksPerSm;
  all.reservedSharedMemPerBlock = sharedReserved;
  all.memoryPoolsSupported = all.clusterLaunch = 1;
  return all;
}

} // namespace

cudaError_t Calls::cudaGetDeviceCount(int *count) {
  return served([&](runtime::EmulatorDevice &) {
    *count = 1;
    return cudaSuccess;
  });
}

cudaError_t Calls::cudaGetDevice(int *device) {
  return served([&](runtime::EmulatorDevice &) {
    *device = 0;
    return cudaSuccess;
  });
}

cudaError_t Calls::cudaSetDevice(int device) { return checked(device); }
cudaError_t Calls::cudaInitDevice(int device, unsigned, unsigned) { return checked(device); }
cudaError_t Calls::cudaSetDeviceFlags(unsigned) { return cudaSuccess; }
cudaError_t Calls::cudaGetDeviceFlags(unsigned *flags) {
  *flags = cudaDeviceMapHost;
  return cudaSuccess;
}
cudaError_t Calls::cudaChooseDevice(int *device, const cudaDeviceProp *) {
  *device = 0;
  return cudaSuccess;
}

cudaError_t Calls::cudaGetDeviceProperties(cudaDeviceProp *result, int device) {
  if (cudaError_t bad = checked(device); bad != cudaSuccess)
    return bad;
  return served([&](runtime::EmulatorDevice &emulated) {
    *result = properties(static_cast<int>(emulated.info().smCount));
    std::ranges::copy(Context::get().uuid(), result->uuid.bytes);
    return cudaSuccess;
  });
}

cudaError_t Calls::cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device) {
  if (cudaError_t bad = checked(device); bad != cudaSuccess)
    return bad;
  return served([&](runtime::EmulatorDevice &emulated) {
    if (attribute <= 0 || attribute >= cudaDevAttrMax)
      return cudaErrorInvalidValue;
    *value = attribute == cudaDevAttrMultiProcessorCount ? static_cast<int>(emulated.info().smCount)
                                                         : 0; // features that the device lacks
    for (const AttributeValue &each : attributeValues)
      if (each.attribute == attribute)
        *value = each.value;
    return cudaSuccess;
  });
}

cudaError_t Calls::cudaDeviceSynchronize() {
  return served([&](runtime::EmulatorDevice &device) {
    return Context::get().meaning(Streams::get().synchronizeAll(device));
  });
}

/// Waits for all work, then frees all memory.
cudaError_t Calls::cudaDeviceReset() {
  cudaError_t error = cudaDeviceSynchronize();
  if (error == cudaSuccess)
    Memory::get().releaseAll();
  clearLastError();
  return error;
}

cudaError_t Calls::cudaDeviceSetLimit(cudaLimit limit, size_t) {
  return limit <= cudaLimitPersistingL2CacheSize ? cudaSuccess
                                                 : remember(cudaErrorUnsupportedLimit);
}

cudaError_t Calls::cudaDeviceGetLimit(size_t *value, cudaLimit limit) {
  constexpr size_t values[] = {512 << 10, 1 << 20, 8 << 20, 2, 2048, 64, 0};
  if (limit >= std::size(values))
    return remember(cudaErrorUnsupportedLimit);
  *value = values[limit];
  return cudaSuccess;
}

cudaError_t Calls::cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
  if (least)
    *least = 0;
  if (greatest)
    *greatest = -5;
  return cudaSuccess;
}

cudaError_t Calls::cudaDeviceGetCacheConfig(cudaFuncCache *config) {
  *config = cudaFuncCachePreferNone;
  return cudaSuccess;
}
cudaError_t Calls::cudaDeviceSetCacheConfig(cudaFuncCache) { return cudaSuccess; }
cudaError_t Calls::cudaDeviceGetSharedMemConfig(cudaSharedMemConfig *config) {
  *config = cudaSharedMemBankSizeFourByte;
  return cudaSuccess;
}
cudaError_t Calls::cudaDeviceSetSharedMemConfig(cudaSharedMemConfig) { return cudaSuccess; }
cudaError_t Calls::cudaCtxResetPersistingL2Cache() { return cudaSuccess; }

cudaError_t Calls::cudaDeviceGetPCIBusId(char *text, int length, int device) {
  if (cudaError_t bad = checked(device); bad != cudaSuccess)
    return bad;
  std::snprintf(text, static_cast<std::size_t>(std::max(length, 0)), "0000:00:00.0");
  return cudaSuccess;
}

cudaError_t Calls::cudaDeviceGetByPCIBusId(int *device, const char *text) {
  if (std::strcmp(text, "0000:00:00.0") != 0)
    return remember(cudaErrorInvalidDevice);
  *device = 0;
  return cudaSuccess;
}

cudaError_t Calls::cudaDeviceCanAccessPeer(int *can, int device, int) {
  *can = 0;
  return checked(device);
}
cudaError_t Calls::cudaDeviceEnablePeerAccess(int, unsigned) {
  return remember(cudaErrorInvalidDevice); // there is one device
}
cudaError_t Calls::cudaDeviceDisablePeerAccess(int) { return remember(cudaErrorInvalidDevice); }

cudaError_t Calls::cudaDriverGetVersion(int *version) {
  *version = cudaVersion;
  return cudaSuccess;
}
cudaError_t Calls::cudaRuntimeGetVersion(int *version) {
  *version = cudaVersion;
  return cudaSuccess;
}

cudaError_t Calls::cudaProfilerStart() { return cudaSuccess; }
cudaError_t Calls::cudaProfilerStop() { return cudaSuccess; }

} // namespace tally::hooks::emulated
