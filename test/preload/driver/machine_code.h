// A substitute for machine code, for the emulated driver, which runs PTX alone.
#ifndef TALLY_TEST_PRELOAD_DRIVER_MACHINE_CODE_H
#define TALLY_TEST_PRELOAD_DRIVER_MACHINE_CODE_H

#include <cstring>
#include <elf.h>
#include <string>
#include <string_view>

namespace tally::preload_driver {

inline constexpr std::string_view codeMark = "emulate"; ///< behind the magic number and class

/// Returns an ELF header, the text and a zero byte.
inline std::string machineCodeOf(std::string_view text) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  std::memcpy(header.e_ident + EI_PAD, codeMark.data(), codeMark.size());
  header.e_shoff = sizeof header + text.size() + 1; // where the file ends
  std::string code(reinterpret_cast<const char *>(&header), sizeof header);
  return (code += text) += '\0';
}

/// Returns the text of such code; nullptr for real machine code.
inline const char *textOf(const void *code) {
  const auto *bytes = static_cast<const char *>(code);
  bool isOurs = std::memcmp(bytes + EI_PAD, codeMark.data(), codeMark.size()) == 0;
  return isOurs ? bytes + sizeof(Elf64_Ehdr) : nullptr;
}

} // namespace tally::preload_driver

#endif
