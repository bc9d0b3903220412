// Finds Triton's assemblers and its caches.
#ifndef TALLY_TOOLS_TALLY_VARIANTS_TRITON_H
#define TALLY_TOOLS_TALLY_VARIANTS_TRITON_H

#include <filesystem>
#include <string>
#include <vector>

namespace tally::variants {

/// Returns the ptxas programs of the Triton that an ancestor process, a few generations back at
/// most, has loaded: ptxas-blackwell, ptxas. Empty without such a Triton.
std::vector<std::filesystem::path> ptxasOfTriton();

/// Returns this user's existing caches that hold machine code with its PTX beside it.
std::vector<std::filesystem::path> tritonCaches();

} // namespace tally::variants

#endif
