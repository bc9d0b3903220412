#include "state/api_calls.h"

#include "state/settings.h"

#include <string>

namespace tally::hooks {

Error failed(const CudaApi &api, const char *call, cudaError_t status) {
  return {std::string(call) + ": " + api.cudaGetErrorName(status) + " (" +
          api.cudaGetErrorString(status) + ")"};
}

void *driverEntry(const CudaApi &api, const char *name) {
  if (Settings::get().emulator.isOn)
    return nullptr;
  void *entry = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  cudaError_t status = api.cudaGetDriverEntryPoint(name, &entry, cudaEnableDefault, &found);
  return status == cudaSuccess && found == cudaDriverEntryPointSuccess ? entry : nullptr;
}

} // namespace tally::hooks
