#include "archive.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Endian.h"

#include <fmt/format.h>

#include <limits>
#include <map>

namespace tally::ptxopt {
namespace {

constexpr llvm::StringLiteral archiveMagic = "!<arch>\n", headerEnd = "`\n";
constexpr llvm::StringLiteral symbols32 = "/", symbols64 = "/SYM64/", longNames = "//";
constexpr std::size_t headerBytes = 60, nameBytes = 16, sizeAt = 48, sizeBytes = 10, endAt = 58;

Error damaged(std::size_t offset, std::string_view why) {
  return {fmt::format("damaged archive: at byte {}: {}", offset, why)};
}

/// Returns a member's name as in its header: "a.o/", "/12" (in the table of long names), "/", "//".
llvm::StringRef rawName(std::string_view bytes, std::size_t header) {
  return llvm::StringRef(bytes).substr(header, nameBytes).rtrim(' ');
}

Result<std::string> nameOf(llvm::StringRef raw, llvm::StringRef table, std::size_t header) {
  std::size_t at = 0;
  if (!raw.consume_front("/"))
    return raw.rtrim('/').str();
  if (raw.getAsInteger(10, at) || at >= table.size())
    return damaged(header, "a member's name is not in the table of names");
  return table.drop_front(at).take_until([](char c) { return c == '\n'; }).rtrim('/').str();
}

} // namespace

Result<std::vector<ArchiveMember>> readArchive(std::string_view bytes) {
  if (!llvm::StringRef(bytes).starts_with(archiveMagic))
    return damaged(0, "this is no archive");
  std::vector<ArchiveMember> members;
  llvm::StringRef table;
  for (std::size_t at = archiveMagic.size(); at < bytes.size();) {
    if (bytes.size() - at < headerBytes ||
        !llvm::StringRef(bytes).substr(at + endAt).starts_with(headerEnd))
      return damaged(at, "no member's header is here");
    std::size_t size = 0;
    llvm::StringRef digits = llvm::StringRef(bytes).substr(at + sizeAt, sizeBytes).rtrim(' ');
    std::size_t start = at + headerBytes;
    if (digits.getAsInteger(10, size) || size > bytes.size() - start)
      return damaged(at + sizeAt, "a member reaches beyond the end");
    ArchiveMember member{at, {}, bytes.substr(start, size), false};
    llvm::StringRef raw = rawName(bytes, at);
    if (raw.starts_with("#1/") || raw.starts_with("__.SYMDEF"))
      return damaged(at, "an archive of BSD's kind is not read");
    if (raw == symbols32 || raw == symbols64 || raw == longNames) {
      member.isTable = true;
      if (raw == longNames)
        table = member.bytes;
    } else {
      auto name = nameOf(raw, table, at);
      if (!name)
        return name.error();
      member.name = std::move(*name);
    }
    members.push_back(std::move(member));
    at = start + size + size % 2; // members start at even offsets
  }
  return members;
}

namespace {

/// Adjusts the offsets in a symbol table to the members' new places. The table holds a big-endian
/// count, the offsets and the names.
template <class Number>
Result<void> moveOffsets(std::string &file, std::size_t start, std::size_t size,
                         const std::map<std::size_t, std::size_t> &moved, std::size_t oldStart) {
  using llvm::support::endian::read, llvm::support::endian::write;
  constexpr auto big = llvm::endianness::big;
  auto count = size < sizeof(Number) ? 0 : read<Number, big>(file.data() + start);
  if (size < sizeof(Number) || count > size / sizeof(Number) - 1)
    return damaged(oldStart, "the table of symbols is larger than its member");
  for (std::size_t i = 1; i <= count; ++i) {
    char *place = file.data() + start + i * sizeof(Number);
    auto member = moved.find(read<Number, big>(place));
    if (member == moved.end())
      return damaged(oldStart + i * sizeof(Number), "no member starts where a symbol's should");
    if (member->second > std::numeric_limits<Number>::max())
      return Error{"the archive would be larger than its table of symbols allows"};
    write<Number, big>(place, static_cast<Number>(member->second));
  }
  return {};
}

} // namespace

Result<std::string> replaceMembers(std::string_view bytes,
                                   const std::vector<ArchiveMember> &members,
                                   const std::vector<std::optional<std::string>> &contents) {
  std::string file = archiveMagic.str();
  std::map<std::size_t, std::size_t> moved;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const ArchiveMember &member = members[i];
    std::string_view data = contents[i] ? std::string_view(*contents[i]) : member.bytes;
    std::string size = fmt::format("{:<{}}", data.size(), sizeBytes);
    if (size.size() != sizeBytes)
      return Error{"a member of the archive would be larger than an archive allows"};
    moved[member.offset] = file.size();
    file += bytes.substr(member.offset, headerBytes);
    file.replace(file.size() - headerBytes + sizeAt, sizeBytes, size);
    file += data;
    file.append(data.size() % 2, '\n');
  }
  for (const ArchiveMember &member : members) {
    llvm::StringRef raw = rawName(bytes, member.offset);
    std::size_t start = moved[member.offset] + headerBytes, old = member.offset + headerBytes;
    Result<void> done;
    if (raw == symbols32)
      done = moveOffsets<std::uint32_t>(file, start, member.bytes.size(), moved, old);
    else if (raw == symbols64)
      done = moveOffsets<std::uint64_t>(file, start, member.bytes.size(), moved, old);
    if (!done)
      return done.error();
  }
  return file;
}

} // namespace tally::ptxopt
