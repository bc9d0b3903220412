// The CUDA runtime's own functions, as the linker names them under --wrap.
#ifndef TALLY_LIB_HOOKS_INTERCEPT_REAL_CALLS_H
#define TALLY_LIB_HOOKS_INTERCEPT_REAL_CALLS_H

#include "tables/cuda_versions.h"

extern "C" {
#define TALLY_CUDA_REAL_Plain(result, name, parameters)
#define TALLY_CUDA_REAL_Ptsz(result, name, parameters) result __real_##name##_ptsz parameters;
#define TALLY_CUDA_REAL_Ptds(result, name, parameters) result __real_##name##_ptds parameters;
#define TALLY_CUDA_CALL(result, name, parameters, arguments, rule, forms)                          \
  result __real_##name parameters;                                                                 \
  TALLY_CUDA_REAL_##forms(result, name, parameters)
#include "tables/cuda_api.def"
#undef TALLY_CUDA_REAL_Plain
#undef TALLY_CUDA_REAL_Ptsz
#undef TALLY_CUDA_REAL_Ptds
}

#endif
