// The CUDA runtime as a table of function pointers: the real one, or the emulator in its place. The
// hooks call either the same way.
#ifndef TALLY_LIB_HOOKS_TABLES_CUDA_API_H
#define TALLY_LIB_HOOKS_TABLES_CUDA_API_H

#include "tables/cuda_versions.h"

#include <atomic>
#include <cstddef>

namespace tally::hooks {

struct DriverLaunches;

/// One member per row of cuda_api.def, named as the function; NAME_ptds is a member of its own.
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
  /// The driver below it, for DirectLaunches; nullptr: there is none to be called.
  const DriverLaunches &(*driver)() = nullptr;
  /// Adds a copy, fill or host function as that node's to a graph. nullptr: the calls above do.
  cudaError_t (*copyGraphNode)(cudaGraph_t into, cudaGraphNode_t *made,
                               cudaGraphNode_t from) = nullptr;
};

/// The CUDA runtime that the program is linked with. Every member is set.
const CudaApi &realApi();
/// The same calls served by the emulator. Every member is set; what is not served gives
/// cudaErrorNotSupported and is named once on standard error.
const CudaApi &emulatedApi();
/// The same calls, all of which fail (cudaErrorStartupFailure) but those that register code and
/// name errors.
const CudaApi &refusingApi();
/// Each module's own; nullptr before the first call of api().
inline constinit std::atomic<const CudaApi *> chosenApi{nullptr};
const CudaApi &chooseApi();
/// The one in use: emulatedApi() under TALLY_DEVICE=emulator, refusingApi() where the settings are
/// wrong, else realApi(). Decided at the first call. Thread-safe.
inline const CudaApi &api() {
  const CudaApi *known = chosenApi.load(std::memory_order_acquire);
  return known ? *known : chooseApi();
}

} // namespace tally::hooks

#endif
