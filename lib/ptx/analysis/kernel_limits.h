// What PTX and the architecture allow of a kernel, as far as its variants need it.
#ifndef TALLY_LIB_PTX_ANALYSIS_KERNEL_LIMITS_H
#define TALLY_LIB_PTX_ANALYSIS_KERNEL_LIMITS_H

#include "string_ref.h"
#include "tally/ptx/analysis/refusal_reasons.h"
#include "tally/ptx/ir/module.h"

#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <string_view>

namespace tally::ptx {

/// Of a function that is called and has no body here.
inline Reason reasonOfMissingBody(std::string_view name) {
  llvm::StringRef text = ref(name);
  if (text.starts_with("cudaCG"))
    return Reason::GridBarrier;
  return text.starts_with("cuda") || text.starts_with("__cudaCDP") ? Reason::DynamicParallelism
                                                                   : Reason::UnknownCallee;
}

/// Whether a kernel is refused for tally's shared variable alone.
inline bool isOfSharedMemory(Reason reason) {
  return reason == Reason::SharedSize || reason == Reason::SharedMemoryLimit;
}

/// PTX ISA 9.0, 5.1.6: 4,352 bytes, and 32,764 from sm_70 and PTX 8.1 on.
inline std::uint32_t parameterLimit(const Module &module) {
  bool large =
      module.targetArch() >= 70 &&
      (module.versionMajor() > 8 || (module.versionMajor() == 8 && module.versionMinor() >= 1));
  return large ? 32764 : 4352;
}

/// Of a parameter: the kernel cannot be copied with it.
inline bool isOpaque(std::string_view type) {
  return type == "texref" || type == "samplerref" || type == "surfref";
}

} // namespace tally::ptx

#endif
