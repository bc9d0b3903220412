// Archives (.a) as GNU's and LLVM's ar write them for ELF: members taken apart, and exchanged.
// LLVM's Object has this too, but ends the process where a member's symbol table is wrong.
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
  std::string name;       ///< empty of the tables of symbols and of long names
  std::string_view bytes;
  bool isTable = false; ///< of symbols (offsets of 4 or 8 bytes) or of long names
};

/// All members in order, tables too. Errors name the offset.
Result<std::vector<ArchiveMember>> readArchive(std::string_view bytes);

/// The archive with other contents of some members: of `contents`, which has one for each member,
/// those that are set. Names, dates, owners and the symbols of each member stay.
Result<std::string> replaceMembers(std::string_view bytes,
                                   const std::vector<ArchiveMember> &members,
                                   const std::vector<std::optional<std::string>> &contents);

} // namespace tally::ptxopt

#endif
