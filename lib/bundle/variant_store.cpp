#include "tally/bundle/variant_store.h"

#include "tally/bundle/abi.h"
#include "tally/bundle/bundle_reader.h"
#include "tally/bundle/fatbin.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <elf.h>

namespace tally::bundle {

namespace {

template <class Header> Header headerAt(const void *image) {
  Header header;
  std::memcpy(&header, image, sizeof header);
  return header;
}

std::size_t elfBytes(const void *image) {
  auto header = headerAt<Elf64_Ehdr>(image);
  std::uint64_t sections = header.e_shoff + std::uint64_t{header.e_shnum} * header.e_shentsize;
  std::uint64_t segments = header.e_phoff + std::uint64_t{header.e_phnum} * header.e_phentsize;
  return std::max(sections, segments);
}

/// u32 magic, u16 version, u16 bytes of the header, u64 bytes of the entries (fatbin.h).
struct ContainerHeader {
  std::uint32_t magic;
  std::uint16_t version, headerBytes;
  std::uint64_t entryBytes;
};

struct Wrapper {
  std::uint32_t magic, version;
  const void *container;
};

/// PTX begins with white space, a comment or a directive.
bool isText(const char *image) {
  std::size_t blanks = std::strspn(image, " \t\r\n\v\f");
  const char *first = image + blanks;
  return std::strncmp(first, "//", 2) == 0 || std::strncmp(first, "/*", 2) == 0 ||
         std::strncmp(first, ".version", 8) == 0;
}

} // namespace

std::string_view deviceImageAt(const void *image) {
  const auto *bytes = static_cast<const char *>(image);
  if (!image)
    return {};
  if (std::memcmp(image, ELFMAG, SELFMAG) == 0)
    return {bytes, elfBytes(image)};
  if (auto magic = headerAt<std::uint32_t>(image); magic == fatbinWrapperMagic)
    return deviceImageAt(headerAt<Wrapper>(image).container);
  else if (magic == fatbinMagic) {
    auto header = headerAt<ContainerHeader>(image);
    return {bytes, header.headerBytes + header.entryBytes};
  }
  return isText(bytes) ? std::string_view(bytes) : std::string_view();
}

std::string imageKey(std::string_view image) {
  __extension__ using Number = unsigned __int128;
  constexpr Number prime = (Number{1} << 88) + 0x13b;
  Number hash = (Number{0x6c62272e07bb0142} << 64) + 0x62b821756295c58d;
  for (char each : image)
    hash = (hash ^ static_cast<unsigned char>(each)) * prime;
  std::string key;
  for (int shift = 124; shift >= 0; shift -= 4)
    key += "0123456789abcdef"[static_cast<unsigned>(hash >> shift) & 15];
  return key;
}

std::string VariantStore::defaultFolder() {
  const char *cache = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
  if (cache && *cache == '/')
    return std::string(cache) + "/tally/variants";
  return home && *home == '/' ? std::string(home) + "/.cache/tally/variants" : std::string();
}

std::string VariantStore::bundleOf(std::string_view key) const {
  return folder + "/" + std::string(key) + "-" + std::to_string(formatVersion) + "." +
         std::to_string(TALLY_ABI_VERSION) + "." + std::to_string(rulesVersion) + ".tally";
}

} // namespace tally::bundle
