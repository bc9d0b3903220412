// Limits of PTX and of the architecture on a kernel, as far as its variants need them.
#ifndef TALLY_LIB_PTX_ANALYSIS_KERNEL_LIMITS_H
#define TALLY_LIB_PTX_ANALYSIS_KERNEL_LIMITS_H

#include "string_ref.h"
#include "tally/ptx/analysis/refusal_reasons.h"
#include "tally/ptx/ir/module.h"

#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <string_view>

namespace tally::ptx {

/// Returns the reason for a called function without a body in the module.
inline Reason reasonOfMissingBody(std::string_view name) {
  llvm::StringRef text = ref(name);
  if (text.starts_with("cudaCG"))
    return Reason::GridBarrier;
  return text.starts_with("cuda") || text.starts_with("__cudaCDP") ? Reason::DynamicParallelism
                                                                   : Reason::UnknownCallee;
}

/// Whether a kernel is refused only because of tally's shared variable.
inline bool isOfSharedMemory(Reason reason) {
  return reason == Reason::SharedSize || reason == Reason::SharedMemoryLimit;
}

/// Returns the limit on parameter bytes (PTX ISA 9.0, 5.1.6): 4,352, and 32,764 from sm_70 and PTX
/// 8.1.
inline std::uint32_t parameterLimit(const Module &module) {
  bool large =
      module.targetArch() >= 70 &&
      (module.versionMajor() > 8 || (module.versionMajor() == 8 && module.versionMinor() >= 1));
  return large ? 32764 : 4352;
}

/// Whether a kernel with a parameter of this type cannot be copied.
inline bool isOpaque(std::string_view type) {
  return type == "texref" || type == "samplerref" || type == "surfref";
}

} // namespace tally::ptx

#endif
