// What a program's or a library's file says to the loader, and which names it has. What sections
// say is read by tally/bundle/elf.h. The bytes are untrusted: all reads are bounds-checked.
#ifndef TALLY_LAUNCHER_ELF_FILE_H
#define TALLY_LAUNCHER_ELF_FILE_H

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tally::launcher {

/// A file's bytes, while this lives. Empty where it cannot be read.
class MappedFile {
public:
  explicit MappedFile(const std::string &path);
  ~MappedFile();
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;
  std::string_view bytes() const { return text; }

private:
  std::string_view text;
};

/// What the kernel looks at when it starts a program.
struct ProgramFile {
  bool is64 = false;      ///< and little-endian; nothing else is known of others
  bool isNative = false;  ///< of this machine
  std::uint16_t type = 0; ///< ET_EXEC, ET_DYN
  /// The loader (PT_INTERP); empty of a program that is linked statically, and of libraries.
  std::string interpreter;
};
/// Nothing where the bytes are no ELF file.
std::optional<ProgramFile> readProgram(std::string_view file);

/// What the loader looks at. Empty where the file has no such section.
struct DynamicSection {
  std::string soname, rpath, runpath;
  std::vector<std::string> needed;
};
DynamicSection readDynamic(std::string_view file);

/// Whether the dynamic symbols have one that other files must define, or one that is defined here.
bool importsSymbol(std::string_view file, std::string_view name);
bool exportsSymbol(std::string_view file, std::string_view name);

} // namespace tally::launcher

#endif
