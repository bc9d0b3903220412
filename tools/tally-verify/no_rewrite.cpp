// Replaces rewrite.cpp in a build without LLVM.
#include "input.h"

#include <fmt/format.h>

namespace tally::verify {

Result<bundle::Bundle> rewriteToBundle(std::string, std::string_view where, const std::string &,
                                       std::uint64_t) {
  return Error{fmt::format("{}: this build has no LLVM and cannot rewrite PTX; give a bundle made "
                           "by tally-ptxopt",
                           where)};
}

} // namespace tally::verify
