#include "elf_file.h"

#include "text.h"

#include "tally/bundle/elf.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tally::launcher {

namespace {

#if defined(__x86_64__)
constexpr std::uint16_t ownMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr std::uint16_t ownMachine = EM_AARCH64;
#else
constexpr std::uint16_t ownMachine = EM_NONE;
#endif

std::string_view sectionOf(std::string_view file, std::string_view name) {
  Result<std::optional<std::string_view>> found = bundle::findSection(file, name);
  return found && *found ? **found : std::string_view();
}

/// Whether a dynamic symbol has the name and, by `isDefined`, is defined in the file or undefined.
bool hasSymbol(std::string_view file, std::string_view name, bool isDefined) {
  std::string_view names = sectionOf(file, ".dynstr");
  // Most files lack the name altogether, so their thousands of symbols need no search.
  if (names.find(name) == std::string_view::npos)
    return false;
  std::string_view symbols = sectionOf(file, ".dynsym");
  for (std::uint64_t at = 0; auto symbol = structureAt<Elf64_Sym>(symbols, at);
       at += sizeof *symbol)
    if ((symbol->st_shndx != SHN_UNDEF) == isDefined && textAt(names, symbol->st_name) == name)
      return true;
  return false;
}

} // namespace

MappedFile::MappedFile(const std::string &path) {
  int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (file < 0)
    return;
  struct stat facts{};
  if (fstat(file, &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_size > 0) {
    auto size = static_cast<std::size_t>(facts.st_size);
    void *memory = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
    if (memory != MAP_FAILED)
      text = std::string_view(static_cast<const char *>(memory), size);
  }
  close(file);
}

MappedFile::~MappedFile() {
  if (!text.empty())
    munmap(const_cast<char *>(text.data()), text.size());
}

std::optional<ProgramFile> readProgram(std::string_view file) {
  if (file.size() < EI_NIDENT || file.substr(0, SELFMAG) != ELFMAG)
    return std::nullopt;
  ProgramFile program;
  auto header = structureAt<Elf64_Ehdr>(file, 0);
  program.is64 = file[EI_CLASS] == ELFCLASS64 && file[EI_DATA] == ELFDATA2LSB && header;
  if (!program.is64)
    return program;
  program.isNative = header->e_machine == ownMachine;
  program.type = header->e_type;
  for (std::uint64_t i = 0; i < header->e_phnum; ++i) {
    auto entry = structureAt<Elf64_Phdr>(file, header->e_phoff + i * sizeof(Elf64_Phdr));
    if (!entry)
      break;
    if (entry->p_type == PT_INTERP)
      program.interpreter = textAt(file, entry->p_offset);
  }
  return program;
}

DynamicSection readDynamic(std::string_view file) {
  DynamicSection result;
  std::string_view entries = sectionOf(file, ".dynamic"), names = sectionOf(file, ".dynstr");
  for (std::uint64_t at = 0; auto entry = structureAt<Elf64_Dyn>(entries, at);
       at += sizeof *entry) {
    std::string text(textAt(names, entry->d_un.d_val));
    if (entry->d_tag == DT_NULL)
      break;
    if (entry->d_tag == DT_NEEDED)
      result.needed.push_back(text);
    else if (entry->d_tag == DT_SONAME)
      result.soname = text;
    else if (entry->d_tag == DT_RPATH)
      result.rpath = text;
    else if (entry->d_tag == DT_RUNPATH)
      result.runpath = text;
  }
  return result;
}

bool importsSymbol(std::string_view file, std::string_view name) {
  return hasSymbol(file, name, false);
}

bool exportsSymbol(std::string_view file, std::string_view name) {
  return hasSymbol(file, name, true);
}

} // namespace tally::launcher
