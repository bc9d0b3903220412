// ELF files: the reader finds sections by name and names damage with its offset; no bytes crash it.
#include "tally/bundle/elf.h"

#include "../support/mutate.h"

#include <doctest/doctest.h>

#include <cstring>
#include <elf.h>
#include <string>

using namespace tally;
using namespace tally::bundle;

namespace {

template <class T> void append(std::string &bytes, const T &value) {
  bytes.append(reinterpret_cast<const char *>(&value), sizeof value);
}

/// Sections: none, .names, .tally ("bundles"), .bss (NOBITS).
std::string sample() {
  const std::string names = std::string("\0.names\0.tally\0.bss\0", 20), contents = "bundles";
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_type = ET_REL;
  header.e_machine = EM_X86_64;
  header.e_shoff = sizeof header + names.size() + contents.size();
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 4;
  header.e_shstrndx = 1;
  std::string file;
  append(file, header);
  file += names + contents;
  append(file, Elf64_Shdr{});
  append(file, Elf64_Shdr{1, SHT_STRTAB, 0, 0, sizeof header, names.size(), 0, 0, 1, 0});
  append(file, Elf64_Shdr{8, SHT_PROGBITS, 0, 0, sizeof header + names.size(), contents.size(), 0,
                          0, 1, 0});
  append(file, Elf64_Shdr{15, SHT_NOBITS, 0, 0, ~0ull, ~0ull, 0, 0, 1, 0});
  return file;
}

constexpr std::size_t tableAt = sizeof(Elf64_Ehdr) + 27;
constexpr std::size_t thirdAt = tableAt + 2 * sizeof(Elf64_Shdr);

void patch(std::string &bytes, std::size_t offset, std::uint64_t value, std::size_t size) {
  std::memcpy(bytes.data() + offset, &value, size);
}

std::string errorOf(const std::string &file) {
  auto found = findSection(file, ".none");
  REQUIRE_FALSE(found);
  return found.error().message;
}

} // namespace

TEST_CASE("sections are found by name") {
  std::string file = sample();
  auto found = findSection(file, ".tally");
  REQUIRE(found);
  REQUIRE(*found);
  CHECK(**found == "bundles");
  CHECK((*found)->data() == file.data() + sizeof(Elf64_Ehdr) + 20);
  auto none = findSection(file, ".tall");
  REQUIRE(none);
  CHECK_FALSE(*none);
  auto empty = findSection(file, ".bss");
  REQUIRE(empty);
  REQUIRE(*empty);
  CHECK((*empty)->empty());
  auto view = ElfView::open(file);
  REQUIRE(view);
  CHECK(view->type() == ET_REL);
  CHECK(view->machine() == EM_X86_64);
  CHECK(view->sectionCount() == 4);
}

TEST_CASE("sections of one name are found all") {
  std::string file = sample();
  auto one = findSections(file, ".tally");
  REQUIRE(one);
  CHECK(*one == std::vector<std::string_view>{"bundles"});
  // The section .bss gets the name and the bytes of .tally.
  file.replace(thirdAt + sizeof(Elf64_Shdr), sizeof(Elf64_Shdr), file, thirdAt, sizeof(Elf64_Shdr));
  auto two = findSections(file, ".tally");
  REQUIRE(two);
  CHECK(*two == std::vector<std::string_view>{"bundles", "bundles"});
  auto none = findSections(file, ".tall");
  REQUIRE(none);
  CHECK(none->empty());
  CHECK_FALSE(findSections("", ".tally"));
}

TEST_CASE("numbers too large for the header are in section 0") {
  std::string file = sample();
  patch(file, offsetof(Elf64_Ehdr, e_shnum), 0, 2);
  patch(file, offsetof(Elf64_Ehdr, e_shstrndx), SHN_XINDEX, 2);
  patch(file, tableAt + offsetof(Elf64_Shdr, sh_size), 4, 8);
  patch(file, tableAt + offsetof(Elf64_Shdr, sh_link), 1, 4);
  auto found = findSection(file, ".tally");
  REQUIRE(found);
  REQUIRE(*found);
  CHECK(**found == "bundles");
}

TEST_CASE("a file without sections has none") {
  std::string file = sample().substr(0, sizeof(Elf64_Ehdr));
  patch(file, offsetof(Elf64_Ehdr, e_shoff), 0, 8);
  patch(file, offsetof(Elf64_Ehdr, e_shnum), 0, 2);
  patch(file, offsetof(Elf64_Ehdr, e_shstrndx), 0, 2);
  auto found = findSection(file, ".tally");
  REQUIRE(found);
  CHECK_FALSE(*found);
}

TEST_CASE("damage is named with its offset") {
  auto with = [](std::size_t offset, std::uint64_t value, std::size_t size) {
    std::string file = sample();
    patch(file, offset, value, size);
    return errorOf(file);
  };
  CHECK(errorOf("") == "this is not an ELF file");
  CHECK(with(0, 0, 1) == "this is not an ELF file");
  CHECK(with(EI_CLASS, ELFCLASS32, 1).starts_with("damaged ELF file: at byte 4: "));
  CHECK(with(EI_DATA, ELFDATA2MSB, 1).starts_with("damaged ELF file: at byte 4: "));
  CHECK(
      with(offsetof(Elf64_Ehdr, e_shoff), ~0ull, 8).starts_with("damaged ELF file: at byte 40: "));
  CHECK(with(offsetof(Elf64_Ehdr, e_shnum), 5, 2).starts_with("damaged ELF file: at byte 60: "));
  CHECK(
      with(offsetof(Elf64_Ehdr, e_shentsize), 1, 2).starts_with("damaged ELF file: at byte 58: "));
  CHECK(with(offsetof(Elf64_Ehdr, e_shstrndx), 4, 2).starts_with("damaged ELF file: at byte 62: "));
  auto at = [](std::size_t offset) {
    return "damaged ELF file: at byte " + std::to_string(offset) + ": ";
  };
  CHECK(with(thirdAt, 20, 4).starts_with(at(thirdAt)));
  CHECK(with(thirdAt + offsetof(Elf64_Shdr, sh_offset), ~0ull, 8)
            .starts_with(at(thirdAt + offsetof(Elf64_Shdr, sh_offset))));
  CHECK(with(thirdAt + offsetof(Elf64_Shdr, sh_size), ~0ull, 8)
            .starts_with(at(thirdAt + offsetof(Elf64_Shdr, sh_offset))));
}

TEST_CASE("damaged files never crash the reader, and its views stay inside") {
  std::string file = sample();
  for (std::uint64_t seed = 0; seed < 5000; ++seed) {
    std::string damaged = test::mutate(file, seed);
    auto found = findSection(damaged, ".tally");
    if (!found)
      CHECK_FALSE(found.error().message.empty());
    else if (*found && !(*found)->empty()) {
      CHECK((*found)->data() >= damaged.data());
      CHECK((*found)->data() + (*found)->size() <= damaged.data() + damaged.size());
    }
  }
}
