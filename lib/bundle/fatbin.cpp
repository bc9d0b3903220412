#include "tally/bundle/fatbin.h"

#include "bytes.h"
#include "fatbin_layout.h"

namespace tally::bundle {

namespace {

Error damagedFatbin(std::uint64_t offset, std::string_view why) {
  return damaged("fatbin", offset, why);
}

/// Whether `size` bytes at `offset` lie behind the fixed part of an entry's header.
bool amongExtras(const FatbinEntry &entry, std::uint64_t offset, std::uint64_t size) {
  return offset >= fatbinEntryHeaderBytes && inside(entry.header, offset, size);
}

/// Reads the texts behind the fixed part of an entry's header.
Result<void> readExtras(FatbinEntry &entry) {
  std::uint64_t ident = numberAt(entry.header, identAt, 4);
  std::uint64_t identSize = numberAt(entry.header, identSizeAt, 4);
  if (ident != 0 && identSize != 0) {
    if (!amongExtras(entry, ident, identSize))
      return damagedFatbin(entry.offset + identAt, "an entry's ident lies outside of its header");
    entry.ident = entry.header.substr(ident, identSize);
  }
  std::uint64_t options = numberAt(entry.header, optionsAt, 4);
  if (options == 0)
    return {};
  if (!amongExtras(entry, options, 8))
    return damagedFatbin(entry.offset + optionsAt, "an entry's options lie outside of its header");
  std::uint64_t text = numberAt(entry.header, options, 4);
  // For machine code an empty text precedes the options.
  if (entry.kind == FatbinKind::Elf)
    ++text;
  std::uint64_t size = numberAt(entry.header, options + 4, 4);
  if (!amongExtras(entry, text, size))
    return damagedFatbin(entry.offset + options, "an entry's options lie outside of its header");
  entry.options = entry.header.substr(text, size);
  return {};
}

/// Reads the entry at `offset` of `bytes`; the container ends at `end`.
Result<FatbinEntry> readEntry(std::string_view bytes, std::size_t offset, std::size_t end) {
  if (end - offset < fatbinEntryHeaderBytes)
    return damagedFatbin(offset, "the container ends inside an entry's header");
  FatbinEntry entry;
  entry.offset = offset;
  std::uint64_t headerSize = numberAt(bytes, offset + entryHeaderAt, 4);
  if (headerSize < fatbinEntryHeaderBytes || headerSize > end - offset)
    return damagedFatbin(offset + entryHeaderAt, "the size of an entry's header is wrong");
  std::uint64_t padded = numberAt(bytes, offset + paddedAt, 8);
  if (padded > end - offset - headerSize)
    return damagedFatbin(offset + paddedAt, "an entry reaches beyond the end of its container");
  entry.header = bytes.substr(offset, headerSize);
  entry.payload = bytes.substr(offset + headerSize, padded);
  entry.kind = static_cast<FatbinKind>(numberAt(entry.header, kindAt, 2));
  entry.minor = static_cast<std::uint16_t>(numberAt(entry.header, minorAt, 2));
  entry.major = static_cast<std::uint16_t>(numberAt(entry.header, majorAt, 2));
  entry.arch = static_cast<std::uint32_t>(numberAt(entry.header, archAt, 4));
  entry.flags = numberAt(entry.header, flagsAt, 8);
  entry.compressedBytes = static_cast<std::uint32_t>(numberAt(entry.header, compressedAt, 4));
  entry.uncompressedBytes = numberAt(entry.header, uncompressedAt, 8);
  if (entry.compressedBytes > padded)
    return damagedFatbin(offset + compressedAt, "an entry is larger than the room it has");
  if (auto extras = readExtras(entry); !extras)
    return extras.error();
  return entry;
}

} // namespace

std::string FatbinEntry::archName() const {
  return std::to_string(arch) + (flags & fatbinArchSpecific ? "a"
                                 : flags & fatbinFamily     ? "f"
                                                            : "");
}

Result<FatbinContainer> readFatbin(std::string_view bytes, std::size_t offset) {
  if (!inside(bytes, offset, fatbinHeaderBytes))
    return damagedFatbin(offset, "the bytes end inside a container's header");
  if (numberAt(bytes, offset, 4) != fatbinMagic)
    return damagedFatbin(offset, "no container starts here (wrong magic number)");
  if (std::uint64_t version = numberAt(bytes, offset + versionAt, 2); version != 1)
    return damagedFatbin(offset + versionAt, "containers of version " + std::to_string(version) +
                                                 " are not known; this build reads version 1");
  if (numberAt(bytes, offset + headerSizeAt, 2) != fatbinHeaderBytes)
    return damagedFatbin(offset + headerSizeAt, "the size of a container's header is wrong");
  std::uint64_t size = numberAt(bytes, offset + sizeAt, 8);
  std::size_t start = offset + fatbinHeaderBytes;
  if (size > bytes.size() - start)
    return damagedFatbin(offset + sizeAt, "a container reaches beyond the end");
  FatbinContainer container;
  container.offset = offset;
  container.bytes = bytes.substr(offset, fatbinHeaderBytes + size);
  for (std::size_t at = start; at < start + size;) {
    auto entry = readEntry(bytes, at, start + size);
    if (!entry)
      return entry.error();
    at += entry->header.size() + entry->payload.size();
    container.entries.push_back(*entry);
  }
  return container;
}

Result<std::vector<FatbinContainer>> readFatbins(std::string_view bytes) {
  std::vector<FatbinContainer> containers;
  for (std::size_t at = 0; at < bytes.size();) {
    std::string_view word = bytes.substr(at, 8);
    if (word.find_first_not_of('\0') == std::string_view::npos) {
      at += word.size();
      continue;
    }
    auto container = readFatbin(bytes, at);
    if (!container)
      return container.error();
    at += (container->bytes.size() + 7) / 8 * 8;
    containers.push_back(std::move(*container));
  }
  return containers;
}

std::optional<std::string_view> fatbinAt(const void *container) {
  if (!container)
    return std::nullopt;
  std::string_view header(static_cast<const char *>(container), fatbinHeaderBytes);
  if (numberAt(header, 0, 4) != fatbinMagic || numberAt(header, versionAt, 2) != 1 ||
      numberAt(header, headerSizeAt, 2) != fatbinHeaderBytes)
    return std::nullopt;
  return std::string_view(header.data(), fatbinHeaderBytes + numberAt(header, sizeAt, 8));
}

} // namespace tally::bundle
