// Turns the status of a call of the CUDA runtime's table into a Result, and finds the driver below
// the table.
#ifndef TALLY_LIB_HOOKS_STATE_API_CALLS_H
#define TALLY_LIB_HOOKS_STATE_API_CALLS_H

#include "tables/cuda_api.h"

#include "tally/support/result.h"

namespace tally::hooks {

/// The error for a failed `call`, in CUDA's words.
Error failed(const CudaApi &api, const char *call, cudaError_t status);
/// An entry point of the driver; nullptr where there is none.
void *driverEntry(const CudaApi &api, const char *name);

} // namespace tally::hooks

// Makes the call of that name. Where the call fails, the enclosing function returns the call's
// error.
#define TALLY_API_TRY(api, name, ...)                                                              \
  do {                                                                                             \
    cudaError_t tallyStatus = (api).name(__VA_ARGS__);                                             \
    if (tallyStatus != cudaSuccess)                                                                \
      return failed(api, #name, tallyStatus);                                                      \
  } while (false)

#endif
