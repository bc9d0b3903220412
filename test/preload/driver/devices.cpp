// Devices (there is one), versions, and errors.
#include "driver.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace tally::preload_driver {

namespace {

struct ErrorName {
  CUresult code;
  const char *name;
};
#define TALLY_ERROR(name) {name, #name}
constexpr ErrorName errorNames[] = {
    TALLY_ERROR(CUDA_SUCCESS),
    TALLY_ERROR(CUDA_ERROR_INVALID_VALUE),
    TALLY_ERROR(CUDA_ERROR_OUT_OF_MEMORY),
    TALLY_ERROR(CUDA_ERROR_NOT_INITIALIZED),
    TALLY_ERROR(CUDA_ERROR_DEINITIALIZED),
    TALLY_ERROR(CUDA_ERROR_NO_DEVICE),
    TALLY_ERROR(CUDA_ERROR_INVALID_DEVICE),
    TALLY_ERROR(CUDA_ERROR_INVALID_IMAGE),
    TALLY_ERROR(CUDA_ERROR_INVALID_CONTEXT),
    TALLY_ERROR(CUDA_ERROR_NO_BINARY_FOR_GPU),
    TALLY_ERROR(CUDA_ERROR_UNSUPPORTED_LIMIT),
    TALLY_ERROR(CUDA_ERROR_INVALID_PTX),
    TALLY_ERROR(CUDA_ERROR_FILE_NOT_FOUND),
    TALLY_ERROR(CUDA_ERROR_INVALID_HANDLE),
    TALLY_ERROR(CUDA_ERROR_ILLEGAL_STATE),
    TALLY_ERROR(CUDA_ERROR_NOT_FOUND),
    TALLY_ERROR(CUDA_ERROR_NOT_READY),
    TALLY_ERROR(CUDA_ERROR_ILLEGAL_ADDRESS),
    TALLY_ERROR(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES),
    TALLY_ERROR(CUDA_ERROR_LAUNCH_TIMEOUT),
    TALLY_ERROR(CUDA_ERROR_CONTEXT_IS_DESTROYED),
    TALLY_ERROR(CUDA_ERROR_ASSERT),
    TALLY_ERROR(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED),
    TALLY_ERROR(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED),
    TALLY_ERROR(CUDA_ERROR_MISALIGNED_ADDRESS),
    TALLY_ERROR(CUDA_ERROR_LAUNCH_FAILED),
    TALLY_ERROR(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE),
    TALLY_ERROR(CUDA_ERROR_NOT_PERMITTED),
    TALLY_ERROR(CUDA_ERROR_NOT_SUPPORTED),
    TALLY_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED),
    TALLY_ERROR(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED),
    TALLY_ERROR(CUDA_ERROR_STREAM_CAPTURE_MERGE),
    TALLY_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNJOINED),
    TALLY_ERROR(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE),
    TALLY_ERROR(CUDA_ERROR_UNKNOWN),
};
#undef TALLY_ERROR

const char *nameOf(CUresult code) {
  for (const ErrorName &each : errorNames)
    if (each.code == code)
      return each.name;
  return nullptr;
}

CUresult found(const char *text, const char **result) {
  if (!result)
    return CUDA_ERROR_INVALID_VALUE;
  *result = text;
  return text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/// Runs `call` for the device.
template <class Call> CUresult onDevice(CUdevice device, Call call) {
  return started([&] { return device == 0 ? codeOf(call()) : CUDA_ERROR_INVALID_DEVICE; });
}

/// The 32 hexadecimal digits of PRELOAD_DRIVER_UUID: Tally's own variables for the emulator are
/// errors in a process whose device counts as a GPU.
CUuuid uuidOf(std::string_view digits) {
  CUuuid result{};
  if (digits.size() == 2 * sizeof result.bytes)
    for (std::size_t i = 0; i < sizeof result.bytes; ++i) {
      const char pair[] = {digits[2 * i], digits[2 * i + 1], 0};
      result.bytes[i] = static_cast<char>(std::strtoul(pair, nullptr, 16));
    }
  return result;
}

} // namespace

CUresult codeOf(cudaError_t error) {
  switch (error) {
  case cudaErrorInvalidSymbol:
    return CUDA_ERROR_NOT_FOUND;
  case cudaErrorInvalidDeviceFunction:
    return CUDA_ERROR_INVALID_HANDLE;
  default:
    // Driver and runtime have the same codes from 100 on, and the same first few; the other codes
    // are the runtime's alone.
    return error < cudaErrorInvalidConfiguration || error >= cudaErrorNoDevice
               ? static_cast<CUresult>(error)
               : CUDA_ERROR_INVALID_VALUE;
  }
}

} // namespace tally::preload_driver

using namespace tally::preload_driver;

extern "C" {

CUresult cuDriverGetVersion(int *version) {
  if (!version)
    return CUDA_ERROR_INVALID_VALUE;
  *version = 13000;
  return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult code, const char **name) { return found(nameOf(code), name); }

CUresult cuGetErrorString(CUresult code, const char **text) {
  // The runtime also has a text for its own codes.
  return found(
      nameOf(code) ? runtime().cudaGetErrorString(static_cast<cudaError_t>(code)) : nullptr, text);
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  return started([&] {
    if (!device)
      return CUDA_ERROR_INVALID_VALUE;
    *device = 0;
    return ordinal == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
  });
}

CUresult cuDeviceGetCount(int *count) {
  return started([&] { return runtime().cudaGetDeviceCount(count); });
}

CUresult cuDeviceGetName(char *name, int length, CUdevice device) {
  return onDevice(device, [&] {
    if (!name || length <= 0)
      return CUDA_ERROR_INVALID_VALUE;
    std::snprintf(name, static_cast<std::size_t>(length), "Tally emulator");
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device) {
  return onDevice(device, [&] {
    if (!uuid)
      return CUDA_ERROR_INVALID_VALUE;
    if (const char *asked = std::getenv("PRELOAD_DRIVER_UUID"))
      *uuid = uuidOf(asked);
    else
      std::ranges::copy(tally::hooks::emulated::Context::get().uuid(), uuid->bytes);
    return CUDA_SUCCESS;
  });
}
CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) { return cuDeviceGetUuid(uuid, device); }

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
  return onDevice(device, [&] {
    if (!value)
      return cudaErrorInvalidValue;
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS_V1:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR_V1:
      *value = 1;
      return cudaSuccess;
    default:
      // The numbers are the same.
      return runtime().cudaDeviceGetAttribute(value, static_cast<cudaDeviceAttr>(attribute), 0);
    }
  });
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
  return onDevice(device, [&] {
    size_t free = 0;
    return runtime().cudaMemGetInfo(&free, bytes);
  });
}

CUresult cuDeviceGetPCIBusId(char *text, int length, CUdevice device) {
  return onDevice(device, [&] { return runtime().cudaDeviceGetPCIBusId(text, length, device); });
}

} // extern "C"
