// What machine code says of how it was made.
#ifndef TALLY_TOOLS_PTXOPT_MACHINE_CODE_H
#define TALLY_TOOLS_PTXOPT_MACHINE_CODE_H

#include "tally/support/result.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tally::ptxopt {

/// Facts of a cubin. ptxas 13 writes them into notes, ptxas 12 and older the first one into the ELF
/// header's flags.
struct MachineCode {
  std::uint32_t virtualArch = 0; ///< 90 if it was made from PTX for compute_90
  bool hasCode = false;          ///< any function at all; what nvcc links last often has none
  /// ptxas's options, ready for its command line: without the architecture, names of files, and
  /// what makes no difference. Nullopt where the cubin does not say.
  std::optional<std::vector<std::string>> options;
  /// Of each entry and function, by its mangled name; without those of which it says nothing.
  std::map<std::string, std::uint32_t, std::less<>> registers;
};

/// An Error for what is no cubin, or damaged.
Result<MachineCode> readMachineCode(std::string_view cubin);

/// The options of a fatbin's entry, ready for ptxas's command line, likewise.
std::vector<std::string> assemblerOptions(std::string_view text);

} // namespace tally::ptxopt

#endif
