// The facts that machine code holds: notes as ptxas 13 writes them, ELF flags as ptxas 12 sets
// them, and the entries of real ptxas output.
#include "assemble.h"
#include "machine_code.h"

#include <doctest/doctest.h>

#include <cstring>
#include <elf.h>

using namespace tally::ptxopt;
using Words = std::vector<std::string>;

namespace {

template <class T> void append(std::string &bytes, const T &value) {
  bytes.append(reinterpret_cast<const char *>(&value), sizeof value);
}

std::string note(std::uint32_t type, const std::string &description) {
  std::string bytes;
  for (std::uint32_t word : {12u, static_cast<std::uint32_t>(description.size()), type})
    append(bytes, word);
  return bytes + std::string("NVIDIA Corp\0", 12) + description;
}

std::string cuinfo(std::uint16_t arch) {
  std::string description;
  for (std::uint16_t half : {std::uint16_t{2}, arch, std::uint16_t{130}, std::uint16_t{0}})
    append(description, half);
  return note(1000, description);
}

std::string tkinfo(const std::string &options) {
  std::string description;
  for (std::uint32_t word : {2u, 0u, 1u, 1u, 1u, 7u})
    append(description, word);
  return note(2000, description + std::string("\0ptxas\0", 7) + options + '\0');
}

struct Section {
  std::string name, bytes;
};

std::string cubin(unsigned char abi, std::uint32_t flags, const std::vector<Section> &sections,
                  std::uint16_t machine = 190) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_ABIVERSION] = abi;
  header.e_machine = machine;
  header.e_flags = flags;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = static_cast<std::uint16_t>(sections.size() + 2);
  header.e_shstrndx = 1;
  std::string names("\0n\0", 3), contents, table(sizeof(Elf64_Shdr), '\0');
  for (const Section &each : sections)
    names += each.name + '\0';
  append(table, Elf64_Shdr{1, SHT_STRTAB, 0, 0, sizeof header, names.size(), 0, 0, 1, 0});
  std::size_t name = 3;
  for (const Section &each : sections) {
    append(table, Elf64_Shdr{static_cast<Elf64_Word>(name), SHT_PROGBITS, 0, 0,
                             sizeof header + names.size() + contents.size(), each.bytes.size(), 0,
                             0, 1, 0});
    name += each.name.size() + 1;
    contents += each.bytes;
  }
  header.e_shoff = sizeof header + names.size() + contents.size();
  std::string file;
  append(file, header);
  return file + names + contents + table;
}

/// An entry that keeps `values` values live at a time; volatile accesses stay in their order.
std::string holding(const std::string &name, unsigned values) {
  std::string loads, stores;
  for (unsigned i = 0; i != values; ++i) {
    std::string place = "%r" + std::to_string(i), address = "[%rd+" + std::to_string(4 * i) + "]";
    loads += "ld.volatile.global.u32 " + place + ", " + address + ";\n";
    stores = "st.volatile.global.u32 " + address + ", " + place + ";\n" + stores;
  }
  return ".visible .entry " + name + "(.param .u64 p) {\n.reg .b64 %rd;\n.reg .b32 %r<" +
         std::to_string(values) + ">;\nld.param.u64 %rd, [p];\n" + loads + stores + "ret;\n}\n";
}

/// Assembles two such entries to machine code.
Assembled assembled(std::uint32_t arch) {
  Assembler assembler(TALLY_PTXAS_PATH, nullptr, 1);
  auto made = assembler.assemble(
      {".version 7.8\n.target sm_75\n.address_size 64\n" + holding("few", 4) + holding("many", 60),
       {{arch, ""}, {}}});
  if (!made)
    FAIL(made.error().message);
  return *made;
}

bool havePtxas() {
  bool have = *TALLY_PTXAS_PATH != '\0';
  if (!have)
    MESSAGE("no ptxas here: nothing is read of what it makes");
  return have;
}

} // namespace

TEST_CASE("registers of each entry are those that ptxas says") {
  if (!havePtxas())
    return;
  for (std::uint32_t arch : {75u, 80u, 90u, 100u}) {
    CAPTURE(arch);
    Assembled made = assembled(arch);
    auto code = readMachineCode(made.cubin);
    REQUIRE(code);
    CHECK(code->registers.size() == 2);
    for (const char *name : {"few", "many"})
      CHECK(code->registers[name] == made.entries.at(name).registers);
    CHECK(code->registers["many"] > 60);
    CHECK(code->registers["few"] < 32);
  }
}

TEST_CASE("machine code that is damaged says less, and nothing breaks") {
  if (!havePtxas())
    return;
  const std::string good = assembled(90).cubin;
  for (std::size_t at = 0; at < good.size(); ++at)
    for (char value : {'\xff', '\0'}) {
      std::string bad = good;
      bad[at] = value;
      static_cast<void>(readMachineCode(bad));
    }
  for (std::size_t size = 0; size < good.size(); size += 3)
    static_cast<void>(readMachineCode(std::string_view(good).substr(0, size)));
  CHECK(readMachineCode(good));
}

TEST_CASE("notes say the virtual architecture and the options") {
  auto code = readMachineCode(
      cubin(8, 0x6005a04,
            {{".note.nv.tkinfo", tkinfo("-v  -maxrregcount 32 -O 1 -arch sm_90 -m 64  ")},
             {".note.nv.cuinfo", cuinfo(80)},
             {".text.f", "code"}}));
  REQUIRE(code);
  CHECK(code->virtualArch == 80);
  CHECK(code->hasCode);
  REQUIRE(code->options);
  CHECK(*code->options == Words{"-maxrregcount=32", "-O1"});
}

TEST_CASE("before there were notes the header's flags say the virtual architecture") {
  auto code = readMachineCode(cubin(7, 0x50055a, {{".text.f", ""}}));
  REQUIRE(code);
  CHECK(code->virtualArch == 80);
  CHECK_FALSE(code->options);
}

TEST_CASE("what is no cubin, and notes that lie") {
  CHECK_FALSE(readMachineCode("x"));
  CHECK_FALSE(readMachineCode(cubin(8, 0, {}, EM_X86_64)));
  auto none = readMachineCode(cubin(8, 0, {}));
  REQUIRE(none);
  CHECK(none->virtualArch == 0);
  CHECK_FALSE(none->hasCode);
  std::string whole = tkinfo("-O 1");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    auto cut = readMachineCode(cubin(8, 0, {{".note.nv.tkinfo", whole.substr(0, size)}}));
    CHECK(cut);
  }
  for (std::size_t at : {0, 4, 8, 44}) {
    std::string damaged = whole;
    std::memset(damaged.data() + at, 0xff, 4);
    CHECK(readMachineCode(cubin(8, 0, {{".note.nv.tkinfo", damaged}})));
  }
}

TEST_CASE("options are made ready for a command line") {
  CHECK(assemblerOptions("") == Words{});
  CHECK(assemblerOptions("-O1 -v  -maxrregcount=32 --generate-line-info ") ==
        Words{"-O1", "-maxrregcount=32", "--generate-line-info"});
  CHECK(assemblerOptions("a.ptx -no-bb-merge  -ret-end  -g  -o a.cubin -arch sm_90 -m 64 -c   ") ==
        Words{"-no-bb-merge", "-ret-end", "-g", "-c"});
  CHECK(assemblerOptions("-dlcm cg -fmad false") == Words{"-dlcm=cg", "-fmad=false"});
  CHECK(assemblerOptions("-arch") == Words{});
}
