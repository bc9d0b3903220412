// Reads the loader's data in the file of a program or library, and the names in it.
// tally/bundle/elf.h reads the sections. The bytes are untrusted: all reads are bounds-checked.
#ifndef TALLY_LAUNCHER_ELF_FILE_H
#define TALLY_LAUNCHER_ELF_FILE_H

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tally::launcher {

/// A file's bytes, mapped for the lifetime of the object. Empty where the file cannot be read.
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

/// The properties that the kernel checks when it starts a program.
struct ProgramFile {
  bool is64 = false;      ///< and little-endian; the other fields are unset for other files
  bool isNative = false;  ///< for this machine
  std::uint16_t type = 0; ///< ET_EXEC, ET_DYN
  /// The loader (PT_INTERP); empty for a statically linked program and for libraries.
  std::string interpreter;
};
/// Nullopt where the bytes are no ELF file.
std::optional<ProgramFile> readProgram(std::string_view file);

/// The entries that the loader reads. Empty where the file has no such section.
struct DynamicSection {
  std::string soname, rpath, runpath;
  std::vector<std::string> needed;
};
DynamicSection readDynamic(std::string_view file);

/// Whether the dynamic symbols include the name as undefined (importsSymbol) or as defined here
/// (exportsSymbol).
bool importsSymbol(std::string_view file, std::string_view name);
bool exportsSymbol(std::string_view file, std::string_view name);

} // namespace tally::launcher

#endif
