// Running ptxas, and what it says of each entry.
#ifndef TALLY_TOOLS_PTXOPT_ASSEMBLE_H
#define TALLY_TOOLS_PTXOPT_ASSEMBLE_H

#include "tally/support/result.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace tally::ptxopt {

/// What machine code of one entry needs, from `ptxas -v`. Bytes per thread or block.
struct EntryUsage {
  std::uint32_t registers = 0;
  std::uint32_t spillBytes = 0; ///< stores and loads together
  std::uint32_t sharedBytes = 0;
};

struct Assembled {
  std::string cubin;
  std::map<std::string, EntryUsage, std::less<>> entries;
};

/// Assembles `ptx` for `arch` ("sm_90", "sm_90a"). An Error holds ptxas's own message. Thread-safe.
Result<Assembled> assemble(const std::string &ptxas, std::string_view ptx, const std::string &arch,
                           bool debug);

/// The usage lines of `ptxas -v`.
std::map<std::string, EntryUsage, std::less<>> parseUsage(std::string_view output);

} // namespace tally::ptxopt

#endif
