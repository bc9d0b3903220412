// Sections of ELF files (64-bit, little-endian), as far as readers of `.nv_fatbin` and `.tally`
// need them. The bytes are untrusted: all reads are bounds-checked, no size in the file determines
// an allocation, and an error names the offset of the wrong byte. No LLVM. Thread-safe.
#ifndef TALLY_BUNDLE_ELF_H
#define TALLY_BUNDLE_ELF_H

#include "tally/support/result.h"

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace tally::bundle {

/// One section. Views point into the file's bytes.
struct ElfSection {
  std::string_view name;
  std::string_view bytes; ///< empty for a section without bytes in the file (SHT_NOBITS)
  std::uint64_t address = 0, size = 0;
  std::uint32_t type = 0;
};

/// A view on an ELF file's bytes, which must outlive it.
class ElfView {
public:
  /// Reads the file's header and the place of the section table.
  static Result<ElfView> open(std::string_view file);

  std::uint16_t type() const { return fileType; }       ///< ET_REL 1, ET_EXEC 2, ET_DYN 3
  std::uint16_t machine() const { return fileMachine; } ///< EM_CUDA 190
  std::uint32_t flags() const { return fileFlags; }
  std::uint64_t sectionCount() const { return count; }
  Result<ElfSection> section(std::uint64_t index) const;
  /// Returns the first section of that name, if there is one.
  Result<std::optional<ElfSection>> find(std::string_view name) const;

private:
  std::string_view file;
  std::uint64_t table = 0, count = 0;
  std::string_view names;
  std::uint16_t fileType = 0, fileMachine = 0;
  std::uint32_t fileFlags = 0;
};

/// Returns the bytes of the first section of that name in an ELF file; nullopt without one.
Result<std::optional<std::string_view>> findSection(std::string_view file, std::string_view name);

/// Returns the bytes of all sections of that name, in the file's order. A link with `--unique`
/// keeps sections apart that other links join.
Result<std::vector<std::string_view>> findSections(std::string_view file, std::string_view name);

} // namespace tally::bundle

#endif
