#include "machine_code.h"

#include "tally/bundle/elf.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Allocator.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/StringSaver.h"

namespace tally::ptxopt {
namespace {

constexpr std::uint16_t emCuda = 190;
constexpr unsigned abiVersionAt = 8, firstAbiWithNotes = 8;
/// Types of notes whose owner is "NVIDIA Corp".
constexpr std::uint32_t cuinfoNote = 1000, tkinfoNote = 2000;

std::uint32_t word(llvm::StringRef bytes, std::size_t offset, unsigned size = 4) {
  if (offset + size > bytes.size())
    return 0;
  return size == 2 ? llvm::support::endian::read16le(bytes.data() + offset)
                   : llvm::support::endian::read32le(bytes.data() + offset);
}

/// Returns the description of the section's first note if its type is `type`; otherwise empty.
llvm::StringRef noteOf(llvm::StringRef section, std::uint32_t type) {
  std::size_t nameSize = (std::size_t{word(section, 0)} + 3) / 4 * 4;
  if (word(section, 8) != type || nameSize > section.size())
    return {};
  return section.drop_front(std::min<std::size_t>(section.size(), 12 + nameSize))
      .take_front(word(section, 4));
}

/// Parses ptxas's own form of a command line: "-v  -maxrregcount 32 -O 1 -arch sm_90 -m 64".
std::optional<std::vector<std::string>> optionsOfNote(llvm::StringRef note) {
  // u32 version, u32 that does not matter here, then offsets of texts that follow the offsets.
  constexpr std::size_t textsAt = 24;
  std::uint32_t offset = word(note, 20);
  if (word(note, 0) != 2 || note.size() < textsAt || offset > note.size() - textsAt)
    return std::nullopt;
  llvm::StringRef text = note.drop_front(textsAt + offset).split('\0').first;
  return assemblerOptions(text);
}

Result<llvm::StringRef> sectionOf(std::string_view cubin, std::string_view name) {
  auto section = bundle::findSection(cubin, name);
  if (!section)
    return section.error();
  return llvm::StringRef(section->value_or(std::string_view()));
}

/// Reads registers from the attributes of the whole file: EIATTR_REGCOUNT holds a symbol's index
/// and a number. Skips damaged attributes, since the numbers only decide the order of attempts.
std::map<std::string, std::uint32_t, std::less<>>
registersIn(llvm::StringRef attributes, llvm::StringRef symbols, llvm::StringRef names) {
  constexpr unsigned char sizedFormat = 4, registerCount = 0x2f;
  constexpr std::size_t symbolBytes = 24;
  std::map<std::string, std::uint32_t, std::less<>> registers;
  for (std::size_t at = 0; at + 4 <= attributes.size();) {
    unsigned char format = attributes[at], attribute = attributes[at + 1];
    std::uint32_t size = format == sizedFormat ? word(attributes, at + 2, 2) : 0;
    if (format == sizedFormat && attribute == registerCount && size >= 8) {
      std::size_t symbol = std::size_t{word(attributes, at + 4)} * symbolBytes;
      llvm::StringRef name =
          names.drop_front(std::min<std::size_t>(names.size(), word(symbols, symbol)));
      if (name = name.split('\0').first; !name.empty())
        registers[name.str()] = word(attributes, at + 8);
    }
    at += 4 + size;
  }
  return registers;
}

} // namespace

Result<MachineCode> readMachineCode(std::string_view cubin) {
  auto view = bundle::ElfView::open(cubin);
  if (!view)
    return view.error();
  if (view->machine() != emCuda)
    return Error{"this is no machine code of a GPU"};
  MachineCode code;
  for (std::uint64_t i = 1; i < view->sectionCount(); ++i) {
    auto section = view->section(i);
    if (!section)
      return section.error();
    code.hasCode |= section->name.starts_with(".text.");
  }
  auto attributes = sectionOf(cubin, ".nv.info");
  auto symbols = sectionOf(cubin, ".symtab"), names = sectionOf(cubin, ".strtab");
  if (attributes && symbols && names)
    code.registers = registersIn(*attributes, *symbols, *names);
  if (static_cast<unsigned char>(cubin[abiVersionAt]) < firstAbiWithNotes) {
    code.virtualArch = view->flags() >> 16 & 0xff;
    return code;
  }
  auto cuinfo = sectionOf(cubin, ".note.nv.cuinfo");
  if (!cuinfo)
    return cuinfo.error();
  code.virtualArch = word(noteOf(*cuinfo, cuinfoNote), 2, 2);
  auto tkinfo = sectionOf(cubin, ".note.nv.tkinfo");
  if (!tkinfo)
    return tkinfo.error();
  code.options = optionsOfNote(noteOf(*tkinfo, tkinfoNote));
  return code;
}

std::vector<std::string> assemblerOptions(std::string_view text) {
  llvm::BumpPtrAllocator allocator;
  llvm::StringSaver saver(allocator);
  llvm::SmallVector<const char *, 16> words;
  llvm::cl::TokenizeGNUCommandLine(llvm::StringRef(text).take_until([](char c) { return !c; }),
                                   saver, words);
  std::vector<std::string> options;
  for (std::size_t i = 0; i < words.size(); ++i) {
    llvm::StringRef word = words[i];
    bool hasValue = i + 1 < words.size() && words[i + 1][0] != '-';
    if (llvm::is_contained({"-arch", "-m", "-o"}, word)) {
      i += hasValue;
      continue;
    }
    if (llvm::is_contained({"-v", "--verbose", "-m64"}, word) || !word.starts_with("-"))
      continue;
    // ptxas takes "-O 1" for an option and a file, but accepts "-maxrregcount 32".
    if (word == "-O" && hasValue)
      options.push_back((word + words[++i]).str());
    else if (hasValue)
      options.push_back((word + "=" + words[++i]).str());
    else
      options.push_back(word.str());
  }
  return options;
}

} // namespace tally::ptxopt
