// The CUDA runtime as a table of function pointers: the real one, or the emulator in its place. The
// hooks call both the same way.
#ifndef TALLY_LIB_HOOKS_TABLES_CUDA_API_H
#define TALLY_LIB_HOOKS_TABLES_CUDA_API_H

#include "tables/cuda_versions.h"

#include <atomic>
#include <cstddef>

namespace tally::hooks {

struct DriverLaunches;

/// One member per row of cuda_api.def, named as the function; NAME_ptds is a separate member.
struct CudaApi {
#define TALLY_CUDA_MEMBER_Plain(result, name, parameters)
#define TALLY_CUDA_MEMBER_Ptsz(result, name, parameters)
#define TALLY_CUDA_MEMBER_Ptds(result, name, parameters) result(*name##_ptds) parameters = nullptr;
#define TALLY_CUDA_CALL(result, name, parameters, arguments, rule, forms)                          \
  result(*name) parameters = nullptr;                                                              \
  TALLY_CUDA_MEMBER_##forms(result, name, parameters)
#include "tables/cuda_api.def"
#undef TALLY_CUDA_MEMBER_Plain
#undef TALLY_CUDA_MEMBER_Ptsz
#undef TALLY_CUDA_MEMBER_Ptds
  /// The driver below the table, for DirectLaunches; nullptr where there is no driver.
  const DriverLaunches &(*driver)() = nullptr;
  /// Adds a copy of `from`, a copy, fill or host-function node, to the graph `into`. nullptr: the
  /// calls above do that.
  cudaError_t (*copyGraphNode)(cudaGraph_t into, cudaGraphNode_t *made,
                               cudaGraphNode_t from) = nullptr;
};

/// The CUDA runtime that the program is linked with. Every member is set.
const CudaApi &realApi();
/// The same calls served by the emulator. Every member is set. A call that is not served returns
/// cudaErrorNotSupported and is named once on standard error.
const CudaApi &emulatedApi();
/// The same calls. All fail with cudaErrorStartupFailure, except those that register code and name
/// errors.
const CudaApi &refusingApi();
/// One per module; nullptr before the first call of api().
inline constinit std::atomic<const CudaApi *> chosenApi{nullptr};
const CudaApi &chooseApi();
/// The table in use: emulatedApi() under TALLY_DEVICE=emulator, refusingApi() where the settings
/// are wrong, else realApi(). Decided at the first call. Thread-safe.
inline const CudaApi &api() {
  const CudaApi *known = chosenApi.load(std::memory_order_acquire);
  return known ? *known : chooseApi();
}

} // namespace tally::hooks

#endif
