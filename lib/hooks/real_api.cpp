#include "cuda_api.h"
#include "real_calls.h"

namespace tally::hooks {

namespace {

CudaApi makeRealApi() {
  CudaApi table;
#define TALLY_CUDA_SET_Plain(name)
#define TALLY_CUDA_SET_Ptsz(name)
#define TALLY_CUDA_SET_Ptds(name) table.name##_ptds = &__real_##name##_ptds;
#define TALLY_CUDA_CALL(result, name, parameters, arguments, rule, forms)                          \
  table.name = &__real_##name;                                                                     \
  TALLY_CUDA_SET_##forms(name)
#include "cuda_api.def"
#undef TALLY_CUDA_SET_Plain
#undef TALLY_CUDA_SET_Ptsz
#undef TALLY_CUDA_SET_Ptds
  return table;
}

} // namespace

const CudaApi &realApi() {
  static const CudaApi table = makeRealApi();
  return table;
}

} // namespace tally::hooks
