// Device code in forms that tally-ptxopt does not rewrite: it is found by its typical bytes, and
// other bytes are not taken for it.
#include "unread_code.h"

#include <doctest/doctest.h>

#include <cstring>
#include <elf.h>

using namespace tally;
using namespace tally::ptxopt;

namespace {

/// A container with one uncompressed PTX entry.
std::string fatbin() {
  std::string header(64, '\0'), text = ".version 8.0";
  text.resize(16);
  auto put = [](std::string &bytes, std::size_t at, std::uint64_t value, std::size_t size) {
    std::memcpy(bytes.data() + at, &value, size);
  };
  put(header, 0, 1, 2);
  put(header, 4, header.size(), 4);
  put(header, 8, text.size(), 8);
  std::string container(16, '\0');
  put(container, 0, 0xba55ed50, 4);
  put(container, 4, 1, 2);
  put(container, 6, 16, 2);
  put(container, 8, header.size() + text.size(), 8);
  return container + header + text;
}

std::string elfHeader(std::uint16_t machine) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_machine = machine;
  return std::string(reinterpret_cast<const char *>(&header), sizeof header);
}

/// Returns the remarks on an object with one section beside the section of names.
std::vector<std::string> remarksOn(const std::string &section, const std::string &contents) {
  std::string names = std::string("\0.names\0", 8) + section + '\0', file = elfHeader(EM_X86_64);
  Elf64_Ehdr header;
  std::memcpy(&header, file.data(), sizeof header);
  header.e_type = ET_REL;
  header.e_shoff = sizeof header + names.size() + contents.size();
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 3;
  header.e_shstrndx = 1;
  std::memcpy(file.data(), &header, sizeof header);
  file += names + contents;
  const Elf64_Shdr sections[] = {
      {},
      {1, SHT_STRTAB, 0, 0, sizeof header, names.size(), 0, 0, 1, 0},
      {8, SHT_PROGBITS, 0, 0, sizeof header + names.size(), contents.size(), 0, 0, 1, 0}};
  file.append(reinterpret_cast<const char *>(sections), sizeof sections);
  auto view = bundle::ElfView::open(file);
  REQUIRE(view);
  auto remarks = remarksOnUnreadCode("a.o", file, *view);
  REQUIRE(remarks);
  return *remarks;
}

} // namespace

TEST_CASE("device code is found wherever it lies in bytes") {
  CHECK(deviceCodeIn("xyz" + fatbin()) == "a fatbin at byte 3");
  CHECK(deviceCodeIn(elfHeader(EM_X86_64) + elfHeader(190)) == "a cubin at byte 64");
  CHECK(deviceCodeIn("\"// by hand\n.version\t8.0\n// x\n.target sm_90\n") == "PTX at byte 12");
}

TEST_CASE("what only resembles device code is none") {
  CHECK_FALSE(deviceCodeIn(""));
  CHECK_FALSE(deviceCodeIn(fatbin().substr(0, 40)));         // the bytes end inside of an entry
  CHECK_FALSE(deviceCodeIn(fatbin().substr(0, 8) + "more")); // as immediates of instructions are
  CHECK_FALSE(deviceCodeIn(elfHeader(190).substr(0, 30)));
  CHECK_FALSE(deviceCodeIn(elfHeader(EM_X86_64)));
  CHECK_FALSE(deviceCodeIn(".version %d.%d\n.target sm_%d")); // a format of a compiler's
  CHECK_FALSE(deviceCodeIn(".version 8.0" + std::string(1000, ' ') + ".target sm_90"));
  CHECK_FALSE(deviceCodeIn(".target sm_90\n.version 8.0\n"));
}

TEST_CASE("each section that holds device code is named, with what to do") {
  auto says = [](const std::vector<std::string> &remarks, std::string_view words) {
    REQUIRE(remarks.size() == 1);
    CAPTURE(remarks[0]);
    CHECK(remarks[0].starts_with("a.o: "));
    CHECK(remarks[0].find(words) != std::string::npos);
  };
  says(remarksOn(".rodata", fatbin()), "section .rodata: a fatbin at byte 0");
  says(remarksOn(".nv_fatb", fatbin()), "section .nv_fatb: a fatbin at byte 0");
  says(remarksOn(".llvm.offloading", "?"), "compile without it, or with nvcc");
  says(remarksOn(".gnu.offload_lto_.decls", "?"), "compile it with nvcc or clang");
  says(remarksOn("__CLANG_OFFLOAD_BUNDLE__cuda-nvptx64-nvidia-cuda-sm_90", "?"), "with nvcc");
  says(remarksOn(".gnu.lto_.symtab.1", "x.__cudaRegisterFatBinary"), "-fno-lto");
  says(remarksOn(".llvm.lto", "BC__cudaRegisterLinkedBinary_1"), "-fno-lto");
}

TEST_CASE("sections that are read, or that no program loads device code from, are not named") {
  for (const char *section : {".nv_fatbin", "__nv_relfatbin", ".tally", ".debug_str"}) {
    CAPTURE(section);
    CHECK(remarksOn(section, fatbin()).empty());
  }
  CHECK(remarksOn(".gnu.lto_.symtab.1", "main").empty());
  CHECK(remarksOn("__CLANG_OFFLOAD_BUNDLE__hip-amdgcn-amd-amdhsa", "?").empty());
  CHECK(remarksOn(".rodata", "text").empty());
}

TEST_CASE("a file without sections is looked at whole") {
  std::string file = elfHeader(EM_X86_64);
  auto of = [&] {
    auto view = bundle::ElfView::open(file);
    REQUIRE(view);
    auto remarks = remarksOnUnreadCode("a", file, *view);
    REQUIRE(remarks);
    return *remarks;
  };
  CHECK(of().empty());
  file += fatbin();
  REQUIRE(of().size() == 1);
  CHECK(of()[0].starts_with("a: it has no sections, so its device code (a fatbin at byte 64)"));
}

TEST_CASE("bitcode that registers device code is named, and so is what cannot be read") {
  CHECK(remarkOnBitcode("a.o", "BC\xc0\xde..__cudaRegisterFatBinary")->find("-fno-lto") !=
        std::string::npos);
  CHECK(remarkOnBitcode("a.o", "BC\xc0\xde..llvm.embedded.object"));
  CHECK(remarkOnBitcode("a.o", "BC\xc0\xde..")->find("cannot read") != std::string::npos);
}

TEST_CASE("text may end behind the word that opens a module") {
  for (const char *text : {".version", ".version ", ".version \t", ".version 8"}) {
    CAPTURE(text);
    CHECK_FALSE(deviceCodeIn(text));
  }
}
