// Reads from machine code how it was made.
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

/// Facts of a cubin. ptxas 13 writes them into notes; ptxas 12 and older write virtualArch into the
/// ELF header's flags.
struct MachineCode {
  std::uint32_t virtualArch = 0; ///< 90 if it was made from PTX for compute_90
  bool hasCode = false;          ///< there is any function; nvcc's last link step often makes none
  /// ptxas's options, ready for its command line: without the architecture, file names, and options
  /// that make no difference. Nullopt where the cubin does not hold them.
  std::optional<std::vector<std::string>> options;
  /// Registers of each entry and function for which the cubin holds the number, by mangled name.
  std::map<std::string, std::uint32_t, std::less<>> registers;
};

/// An Error for bytes that are no cubin, or damaged.
Result<MachineCode> readMachineCode(std::string_view cubin);

/// Returns the options of a fatbin's entry in the same form, ready for ptxas's command line.
std::vector<std::string> assemblerOptions(std::string_view text);

} // namespace tally::ptxopt

#endif
