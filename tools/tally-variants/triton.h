// Where Triton keeps what it compiles with and what it has compiled.
#ifndef TALLY_TOOLS_TALLY_VARIANTS_TRITON_H
#define TALLY_TOOLS_TALLY_VARIANTS_TRITON_H

#include <filesystem>
#include <string>
#include <vector>

namespace tally::variants {

/// The ptxas programs that come with the Triton that a process has loaded which has started this
/// one, by way of a few others at most: ptxas-blackwell, ptxas. Empty: there is none.
std::vector<std::filesystem::path> ptxasOfTriton();

/// Where machine code is cached with its PTX beside it: those caches of this user's that there are.
std::vector<std::filesystem::path> tritonCaches();

} // namespace tally::variants

#endif
