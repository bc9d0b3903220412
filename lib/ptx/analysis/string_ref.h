// Converts a view of text to the type of LLVM's functions.
#ifndef TALLY_LIB_PTX_ANALYSIS_STRING_REF_H
#define TALLY_LIB_PTX_ANALYSIS_STRING_REF_H

#include "llvm/ADT/StringRef.h"

#include <string_view>

namespace tally::ptx {

inline llvm::StringRef ref(std::string_view text) { return {text.data(), text.size()}; }

} // namespace tally::ptx

#endif
