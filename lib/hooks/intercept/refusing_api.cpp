// The CUDA runtime where the settings are wrong: calls that register code or name errors go to the
// real runtime, every other call fails. A program whose class was misspelt must not run as another
// class, and a library must not end the program.
#include "intercept/real_calls.h"
#include "tables/cuda_api.h"

#include <string_view>

namespace tally::hooks {

namespace {

template <class Function> struct Refusal {
  static Function of(Function real, std::string_view) { return real; }
};
template <class... Parameters> struct Refusal<cudaError_t (*)(Parameters...)> {
  using Function = cudaError_t (*)(Parameters...);
  static cudaError_t refuse(Parameters...) { return cudaErrorStartupFailure; }
  /// Calls made by compiler-generated code go to the real function.
  static Function of(Function real, std::string_view name) {
    return name.starts_with("__cuda") ? real : refuse;
  }
};

template <class Function> void set(Function &member, std::string_view name) {
  member = Refusal<Function>::of(member, name);
}

CudaApi makeRefusingApi() {
  CudaApi table = realApi();
#define TALLY_CUDA_REFUSE_Plain(name)
#define TALLY_CUDA_REFUSE_Ptsz(name)
#define TALLY_CUDA_REFUSE_Ptds(name) set(table.name##_ptds, #name);
#define TALLY_CUDA_CALL(result, name, parameters, arguments, rule, forms)                          \
  set(table.name, #name);                                                                          \
  TALLY_CUDA_REFUSE_##forms(name)
#include "tables/cuda_api.def"
#undef TALLY_CUDA_REFUSE_Plain
#undef TALLY_CUDA_REFUSE_Ptsz
#undef TALLY_CUDA_REFUSE_Ptds
  return table;
}

} // namespace

const CudaApi &refusingApi() {
  static const CudaApi table = makeRefusingApi();
  return table;
}

} // namespace tally::hooks
