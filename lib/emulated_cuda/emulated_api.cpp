// The table of the emulated CUDA runtime: the calls of served.def; all other calls return
// notServed().
#include "calls.h"
#include "context.h"
#include "launch.h"

#include "tables/cuda_api.h"

#include <type_traits>

namespace tally::hooks {

namespace {

template <class... Arguments> void ignore(const Arguments &...) {}

template <class Result> Result unserved(const char *call) {
  cudaError_t error = emulated::notServed(call);
  if constexpr (std::is_same_v<Result, cudaError_t>)
    return error;
  else if constexpr (!std::is_void_v<Result>)
    return Result{};
}

CudaApi makeEmulatedApi() {
  CudaApi table;
#define TALLY_UNSERVED(result, name, parameters, arguments)                                        \
  table.name = [] parameters -> result {                                                           \
    ignore arguments;                                                                              \
    return unserved<result>(#name);                                                                \
  };
#define TALLY_UNSERVED_Plain(result, name, parameters, arguments)
#define TALLY_UNSERVED_Ptsz(result, name, parameters, arguments)
#define TALLY_UNSERVED_Ptds(result, name, parameters, arguments)                                   \
  TALLY_UNSERVED(result, name##_ptds, parameters, arguments)
#define TALLY_CUDA_CALL(result, name, parameters, arguments, rule, forms)                          \
  TALLY_UNSERVED(result, name, parameters, arguments)                                              \
  TALLY_UNSERVED_##forms(result, name, parameters, arguments)
#include "tables/cuda_api.def"
#undef TALLY_UNSERVED
#undef TALLY_UNSERVED_Plain
#undef TALLY_UNSERVED_Ptsz
#undef TALLY_UNSERVED_Ptds
#define TALLY_SERVED(name) table.name = &emulated::Calls::name;
#include "served.def"
  table.driver = &emulated::driver;
  return table;
}

} // namespace

const CudaApi &emulatedApi() {
  static const CudaApi table = makeEmulatedApi();
  return table;
}

} // namespace tally::hooks
