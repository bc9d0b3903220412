// The calls that the emulated CUDA runtime serves: static members of one struct, so that they call
// each other and never the program's CUDA runtime. Declared from cuda_api.def; the calls of
// served.def are defined in this folder's calls_*.cpp.
#ifndef TALLY_LIB_EMULATED_CUDA_CALLS_H
#define TALLY_LIB_EMULATED_CUDA_CALLS_H

#include "tables/cuda_versions.h"

#include <cstddef>

namespace tally::hooks::emulated {

struct Calls {
#define TALLY_CUDA_MEMBER_Plain(result, name, parameters)
#define TALLY_CUDA_MEMBER_Ptsz(result, name, parameters)
#define TALLY_CUDA_MEMBER_Ptds(result, name, parameters) static result name##_ptds parameters;
#define TALLY_CUDA_CALL(result, name, parameters, arguments, rule, forms)                          \
  static result name parameters;                                                                   \
  TALLY_CUDA_MEMBER_##forms(result, name, parameters)
#include "tables/cuda_api.def"
#undef TALLY_CUDA_MEMBER_Plain
#undef TALLY_CUDA_MEMBER_Ptsz
#undef TALLY_CUDA_MEMBER_Ptds
};

} // namespace tally::hooks::emulated

#endif
