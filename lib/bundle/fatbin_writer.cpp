#include "tally/bundle/fatbin_writer.h"

#include "bytes.h"
#include "fatbin_layout.h"

namespace tally::bundle {

namespace {

void patch(std::string &bytes, std::size_t offset, std::uint64_t value, std::size_t size) {
  assert(inside(bytes, offset, size));
  for (std::size_t i = 0; i < size; ++i)
    bytes[offset + i] = static_cast<char>(value >> (8 * i) & 0xff);
}

void pad(std::string &bytes) { bytes.resize((bytes.size() + 7) / 8 * 8, '\0'); }

/// Appends a text behind the fixed part of a header; returns its offset.
std::size_t putText(std::string &header, std::string_view text) {
  std::size_t offset = header.size();
  header += text;
  header += '\0';
  pad(header);
  return offset;
}

/// Returns the header of a new entry without the fields that depend on the payload.
std::string headerOf(const NewFatbinEntry &entry) {
  std::string header(fatbinEntryHeaderBytes, '\0');
  patch(header, kindAt, static_cast<std::uint16_t>(entry.kind), 2);
  patch(header, constantAt, 0x0101, 2);
  patch(header, minorAt, entry.minor, 2);
  patch(header, majorAt, entry.major, 2);
  patch(header, archAt, entry.arch, 4);
  patch(header, flagsAt, entry.flags, 8);
  if (!entry.ident.empty()) {
    patch(header, identAt, putText(header, entry.ident), 4);
    patch(header, identSizeAt, entry.ident.size(), 4);
  }
  if (entry.kind != FatbinKind::Elf || !entry.options.empty()) {
    std::size_t options = header.size();
    patch(header, optionsAt, options, 4);
    header.resize(options + 8, '\0');
    patch(header, options, header.size(), 4);
    patch(header, options + 4, entry.options.size(), 4);
    if (entry.kind == FatbinKind::Elf)
      header += '\0';
    putText(header, entry.options);
  }
  patch(header, entryHeaderAt, header.size(), 4);
  return header;
}

} // namespace

void FatbinWriter::keep(const FatbinEntry &entry) {
  entries += entry.header;
  entries += entry.payload;
}

Result<void> FatbinWriter::replace(const FatbinEntry &entry, std::string_view payload) {
  return put(std::string(entry.header), entry.compression(), entry.kind, payload);
}

Result<void> FatbinWriter::replace(const FatbinEntry &entry, std::string_view payload,
                                   std::string_view options, Compression compression) {
  if (options == entry.options)
    return put(std::string(entry.header), compression, entry.kind, payload);
  return add({entry.kind, entry.major, entry.minor, entry.arch, entry.flags, compression,
              std::string(entry.ident), std::string(options), std::string(payload)});
}

Result<void> FatbinWriter::add(const NewFatbinEntry &entry) {
  return put(headerOf(entry), entry.compression, entry.kind, entry.payload);
}

Result<void> FatbinWriter::put(std::string header, Compression compression, FatbinKind kind,
                               std::string_view payload) {
  std::string plain(payload);
  if (kind == FatbinKind::Ptx)
    plain += '\0';
  std::uint64_t flags = numberAt(header, flagsAt, 8) & ~(fatbinLz4 | fatbinZstd);
  std::string bytes;
  if (compression == Compression::None) {
    bytes = std::move(plain);
    patch(header, compressedAt, 0, 4);
    patch(header, uncompressedAt, 0, 8);
  } else {
    auto packed = compress(plain, compression);
    if (!packed)
      return packed.error();
    bytes = std::move(*packed);
    flags |= compression == Compression::Lz4 ? fatbinLz4 : fatbinZstd;
    if (bytes.size() > 0xffffffffu)
      return Error{"a fatbin's entry of more than 4 GiB cannot be written"};
    patch(header, compressedAt, bytes.size(), 4);
    patch(header, uncompressedAt, plain.size(), 8);
  }
  pad(bytes);
  patch(header, flagsAt, flags, 8);
  patch(header, paddedAt, bytes.size(), 8);
  entries += header;
  entries += bytes;
  return {};
}

std::string FatbinWriter::container() const {
  std::string bytes(fatbinHeaderBytes, '\0');
  patch(bytes, 0, fatbinMagic, 4);
  patch(bytes, versionAt, 1, 2);
  patch(bytes, headerSizeAt, fatbinHeaderBytes, 2);
  patch(bytes, sizeAt, entries.size(), 8);
  return bytes + entries;
}

} // namespace tally::bundle
