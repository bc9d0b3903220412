#include "tally/bundle/elf.h"

#include "bytes.h"

#include <elf.h>

namespace tally::bundle {

namespace {

constexpr std::size_t sectionHeaderBytes = sizeof(Elf64_Shdr);

Error damagedElf(std::uint64_t offset, std::string_view why) {
  return damaged("ELF file", offset, why);
}

/// Returns the file's bytes of the section whose header is at `header`.
Result<std::string_view> contentsOf(std::string_view file, std::uint64_t header) {
  if (numberAt(file, header + offsetof(Elf64_Shdr, sh_type), 4) == SHT_NOBITS)
    return std::string_view();
  std::uint64_t place = header + offsetof(Elf64_Shdr, sh_offset);
  std::uint64_t offset = numberAt(file, place, 8);
  std::uint64_t size = numberAt(file, header + offsetof(Elf64_Shdr, sh_size), 8);
  if (!inside(file, offset, size))
    return damagedElf(place, "a section lies outside of the file");
  return file.substr(offset, size);
}

} // namespace

Result<ElfView> ElfView::open(std::string_view file) {
  if (file.size() < sizeof(Elf64_Ehdr) || file.substr(0, SELFMAG) != ELFMAG)
    return Error{"this is not an ELF file"};
  if (file[EI_CLASS] != ELFCLASS64 || file[EI_DATA] != ELFDATA2LSB)
    return damagedElf(EI_CLASS, "only 64-bit little-endian ELF files are read");
  ElfView view;
  view.file = file;
  view.fileType = static_cast<std::uint16_t>(numberAt(file, offsetof(Elf64_Ehdr, e_type), 2));
  view.fileMachine = static_cast<std::uint16_t>(numberAt(file, offsetof(Elf64_Ehdr, e_machine), 2));
  view.fileFlags = static_cast<std::uint32_t>(numberAt(file, offsetof(Elf64_Ehdr, e_flags), 4));
  view.table = numberAt(file, offsetof(Elf64_Ehdr, e_shoff), 8);
  view.count = numberAt(file, offsetof(Elf64_Ehdr, e_shnum), 2);
  std::uint64_t names = numberAt(file, offsetof(Elf64_Ehdr, e_shstrndx), 2);
  if (view.table == 0) {
    view.count = 0;
    return view;
  }
  if (!inside(file, view.table, sectionHeaderBytes))
    return damagedElf(offsetof(Elf64_Ehdr, e_shoff), "the section table lies outside of the file");
  if (numberAt(file, offsetof(Elf64_Ehdr, e_shentsize), 2) != sectionHeaderBytes)
    return damagedElf(offsetof(Elf64_Ehdr, e_shentsize), "section headers are not of 64 bytes");
  // Section 0 holds a number that is too large for the header's field.
  if (view.count == 0)
    view.count = numberAt(file, view.table + offsetof(Elf64_Shdr, sh_size), 8);
  if (names == SHN_XINDEX)
    names = numberAt(file, view.table + offsetof(Elf64_Shdr, sh_link), 4);
  if (view.count > (file.size() - view.table) / sectionHeaderBytes)
    return damagedElf(offsetof(Elf64_Ehdr, e_shnum), "the section table ends outside of the file");
  if (names == SHN_UNDEF)
    return view;
  if (names >= view.count)
    return damagedElf(offsetof(Elf64_Ehdr, e_shstrndx), "there is no such section of names");
  auto table = contentsOf(file, view.table + names * sectionHeaderBytes);
  if (!table)
    return table.error();
  view.names = *table;
  return view;
}

Result<ElfSection> ElfView::section(std::uint64_t index) const {
  assert(index < count);
  std::uint64_t header = table + index * sectionHeaderBytes;
  ElfSection section;
  section.type =
      static_cast<std::uint32_t>(numberAt(file, header + offsetof(Elf64_Shdr, sh_type), 4));
  section.address = numberAt(file, header + offsetof(Elf64_Shdr, sh_addr), 8);
  section.size = numberAt(file, header + offsetof(Elf64_Shdr, sh_size), 8);
  std::uint64_t nameOffset = numberAt(file, header + offsetof(Elf64_Shdr, sh_name), 4);
  if (nameOffset != 0 || !names.empty()) {
    std::size_t end = names.find('\0', nameOffset);
    if (nameOffset >= names.size() || end == std::string_view::npos)
      return damagedElf(header, "a section's name lies outside of the names");
    section.name = names.substr(nameOffset, end - nameOffset);
  }
  // Section 0 is no section; its fields have other meanings.
  if (index == 0)
    return section;
  auto bytes = contentsOf(file, header);
  if (!bytes)
    return bytes.error();
  section.bytes = *bytes;
  return section;
}

Result<std::optional<ElfSection>> ElfView::find(std::string_view name) const {
  for (std::uint64_t i = 1; i < count; ++i) {
    auto found = section(i);
    if (!found)
      return found.error();
    if (found->name == name)
      return std::optional(*found);
  }
  return std::optional<ElfSection>();
}

Result<std::optional<std::string_view>> findSection(std::string_view file, std::string_view name) {
  auto view = ElfView::open(file);
  if (!view)
    return view.error();
  auto found = view->find(name);
  if (!found)
    return found.error();
  if (!*found)
    return std::optional<std::string_view>();
  return std::optional((*found)->bytes);
}

Result<std::vector<std::string_view>> findSections(std::string_view file, std::string_view name) {
  auto view = ElfView::open(file);
  if (!view)
    return view.error();
  std::vector<std::string_view> found;
  for (std::uint64_t i = 1; i < view->sectionCount(); ++i) {
    auto section = view->section(i);
    if (!section)
      return section.error();
    if (section->name == name)
      found.push_back(section->bytes);
  }
  return found;
}

} // namespace tally::bundle
