// Errors: the thread's last error, and the names of errors.
#include "calls.h"
#include "context.h"

namespace tally::hooks::emulated {

namespace {

struct ErrorText {
  cudaError_t code;
  const char *name, *text;
};
#define TALLY_ERROR(name, text) {name, #name, text}
constexpr ErrorText texts[] = {
    TALLY_ERROR(cudaSuccess, "no error"),
    TALLY_ERROR(cudaErrorInvalidValue, "invalid argument"),
    TALLY_ERROR(cudaErrorMemoryAllocation, "out of memory"),
    TALLY_ERROR(cudaErrorInitializationError, "initialization error"),
    TALLY_ERROR(cudaErrorCudartUnloading, "driver shutting down"),
    TALLY_ERROR(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    TALLY_ERROR(cudaErrorInvalidPitchValue, "invalid pitch argument"),
    TALLY_ERROR(cudaErrorInvalidSymbol, "invalid device symbol"),
    TALLY_ERROR(cudaErrorInvalidTexture, "invalid texture reference"),
    TALLY_ERROR(cudaErrorInvalidChannelDescriptor, "invalid channel descriptor"),
    TALLY_ERROR(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    TALLY_ERROR(cudaErrorInsufficientDriver,
                "CUDA driver version is insufficient for CUDA runtime version"),
    TALLY_ERROR(cudaErrorMissingConfiguration, "__global__ function call is not configured"),
    TALLY_ERROR(cudaErrorInvalidDeviceFunction, "invalid device function"),
    TALLY_ERROR(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    TALLY_ERROR(cudaErrorInvalidDevice, "invalid device ordinal"),
    TALLY_ERROR(cudaErrorInvalidKernelImage, "device kernel image is invalid"),
    TALLY_ERROR(cudaErrorNoKernelImageForDevice,
                "no kernel image is available for execution on the device"),
    TALLY_ERROR(cudaErrorInvalidPtx, "a PTX JIT compilation failed"),
    TALLY_ERROR(cudaErrorFileNotFound, "file not found"),
    TALLY_ERROR(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    TALLY_ERROR(cudaErrorIllegalState, "the operation cannot be performed in the present state"),
    TALLY_ERROR(cudaErrorSymbolNotFound, "named symbol not found"),
    TALLY_ERROR(cudaErrorNotReady, "device not ready"),
    TALLY_ERROR(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    TALLY_ERROR(cudaErrorLaunchOutOfResources, "too many resources requested for launch"),
    TALLY_ERROR(cudaErrorLaunchTimeout, "the launch timed out and was terminated"),
    TALLY_ERROR(cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled"),
    TALLY_ERROR(cudaErrorPeerAccessNotEnabled, "peer access has not been enabled"),
    TALLY_ERROR(cudaErrorAssert, "device-side assert triggered"),
    TALLY_ERROR(cudaErrorHostMemoryAlreadyRegistered,
                "part or all of the requested memory range is already mapped"),
    TALLY_ERROR(cudaErrorHostMemoryNotRegistered,
                "pointer does not correspond to a registered memory region"),
    TALLY_ERROR(cudaErrorMisalignedAddress, "misaligned address"),
    TALLY_ERROR(cudaErrorLaunchFailure, "unspecified launch failure"),
    TALLY_ERROR(cudaErrorCooperativeLaunchTooLarge, "too many blocks in cooperative launch"),
    TALLY_ERROR(cudaErrorNotPermitted, "operation not permitted"),
    TALLY_ERROR(cudaErrorNotSupported, "operation not supported"),
    TALLY_ERROR(cudaErrorStreamCaptureUnsupported,
                "operation not permitted when stream is capturing"),
    TALLY_ERROR(cudaErrorStreamCaptureInvalidated,
                "operation failed due to a previous error during capture"),
    TALLY_ERROR(cudaErrorStreamCaptureMerge,
                "operation would result in a merge of separate capture sequences"),
    TALLY_ERROR(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work"),
    TALLY_ERROR(cudaErrorGraphExecUpdateFailure,
                "the graph update was not performed because it included changes which violated "
                "constraints specific to instantiated graph update"),
    TALLY_ERROR(cudaErrorUnknown, "unknown error"),
};
#undef TALLY_ERROR

const ErrorText *textOf(cudaError_t code) {
  for (const ErrorText &each : texts)
    if (each.code == code)
      return &each;
  return nullptr;
}

/// A fault ends the device: from then on its error is every thread's last error.
cudaError_t sticky() { return Context::get().wasOpened() ? Context::get().health() : cudaSuccess; }

} // namespace

cudaError_t Calls::cudaGetLastError() {
  cudaError_t error = lastError();
  clearLastError();
  return error == cudaSuccess ? sticky() : error;
}

cudaError_t Calls::cudaPeekAtLastError() {
  return lastError() == cudaSuccess ? sticky() : lastError();
}

const char *Calls::cudaGetErrorName(cudaError_t code) {
  const ErrorText *found = textOf(code);
  return found ? found->name : "unrecognized error code";
}

const char *Calls::cudaGetErrorString(cudaError_t code) {
  const ErrorText *found = textOf(code);
  return found ? found->text : "unrecognized error code";
}

} // namespace tally::hooks::emulated
