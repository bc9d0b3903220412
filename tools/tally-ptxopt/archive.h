// Archives (.a) as GNU's and LLVM's ar write them for ELF: reads members and replaces their
// contents. LLVM's Object library can do this too, but ends the process on a wrong symbol table in
// a member.
#ifndef TALLY_TOOLS_PTXOPT_ARCHIVE_H
#define TALLY_TOOLS_PTXOPT_ARCHIVE_H

#include "tally/support/result.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tally::ptxopt {

/// Views point into the archive's bytes.
struct ArchiveMember {
  std::size_t offset = 0; ///< of its header
  std::string name;       ///< empty for the tables of symbols and of long names
  std::string_view bytes;
  bool isTable = false; ///< a table of symbols (offsets of 4 or 8 bytes) or of long names
};

/// Returns all members in order, tables included. Errors name the offset.
Result<std::vector<ArchiveMember>> readArchive(std::string_view bytes);

/// Returns the archive with new contents of some members. `contents` has one element per member; an
/// empty element keeps the member. Names, dates, owners and the symbols of each member stay.
Result<std::string> replaceMembers(std::string_view bytes,
                                   const std::vector<ArchiveMember> &members,
                                   const std::vector<std::optional<std::string>> &contents);

} // namespace tally::ptxopt

#endif
