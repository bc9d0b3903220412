// Fatbins: the reader reads back every fatbin that the writer writes, with every compression. It
// finds and names damage, and wrong sizes cause no large allocation.
#include "tally/bundle/fatbin.h"
#include "tally/bundle/fatbin_writer.h"

#include "../support/mutate.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

using namespace tally;
using namespace tally::bundle;

namespace {

const std::string ptx =
    ".version 9.0\n.target sm_90\n.address_size 64\n\n.visible .entry f()\n{\n"
    "\tret;\n}\n// aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n";

NewFatbinEntry ptxEntry(Compression compression) {
  return {FatbinKind::Ptx,      9,  0, 90, 0x11 | fatbinArchSpecific, compression, "a.cu",
          " -maxrregcount=32 ", ptx};
}

std::string sample(Compression compression = Compression::None) {
  FatbinWriter writer;
  CHECK(writer.add({FatbinKind::Elf, 1, 8, 90, 0x11, compression, "", "", std::string(24, 'e')}));
  CHECK(writer.add(ptxEntry(compression)));
  return writer.container();
}

void patch(std::string &bytes, std::size_t offset, std::uint64_t value, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i)
    bytes[offset + i] = static_cast<char>(value >> (8 * i) & 0xff);
}

std::string errorOf(const std::string &bytes) {
  auto container = readFatbin(bytes);
  REQUIRE_FALSE(container);
  return container.error().message;
}

} // namespace

TEST_CASE("a container is read back as it was written, in every compression") {
  for (Compression compression : {Compression::None, Compression::Lz4, Compression::Zstd}) {
    CAPTURE(name(compression));
    std::string bytes = sample(compression);
    auto container = readFatbin(bytes);
    REQUIRE(container);
    CHECK(container->bytes == bytes);
    REQUIRE(container->entries.size() == 2);
    const FatbinEntry &machineCode = container->entries[0], &text = container->entries[1];
    CHECK(machineCode.kind == FatbinKind::Elf);
    CHECK(machineCode.archName() == "90");
    CHECK(text.kind == FatbinKind::Ptx);
    CHECK(text.archName() == "90a");
    CHECK(text.major == 9);
    CHECK(text.ident == "a.cu");
    CHECK(text.options == " -maxrregcount=32 ");
    CHECK(text.compression() == compression);
    auto payload = decompress(text);
    REQUIRE(payload);
    CHECK(*payload == ptx);
    auto code = decompress(machineCode);
    REQUIRE(code);
    CHECK(*code == std::string(24, 'e'));
  }
}

TEST_CASE("a replaced payload keeps the rest of its entry, and a kept entry all of it") {
  for (Compression compression : {Compression::None, Compression::Lz4, Compression::Zstd}) {
    CAPTURE(name(compression));
    std::string bytes = sample(compression);
    auto before = readFatbin(bytes);
    REQUIRE(before);
    FatbinWriter same, other;
    for (const FatbinEntry &entry : before->entries) {
      same.keep(entry);
      REQUIRE(other.replace(entry, entry.kind == FatbinKind::Ptx ? ptx + "// more\n" : "12345678"));
    }
    CHECK(same.container() == bytes);
    std::string changed = other.container();
    auto after = readFatbin(changed);
    REQUIRE(after);
    REQUIRE(after->entries.size() == 2);
    CHECK(*decompress(after->entries[0]) == "12345678");
    const FatbinEntry &text = after->entries[1];
    CHECK(*decompress(text) == ptx + "// more\n");
    CHECK(text.options == " -maxrregcount=32 ");
    CHECK(text.ident == "a.cu");
    CHECK(text.flags == before->entries[1].flags);
    CHECK(text.compression() == compression);
  }
}

TEST_CASE("other options go into the header of a replaced entry, which keeps the rest") {
  FatbinWriter before;
  REQUIRE(before.add({FatbinKind::Elf, 1, 8, 100, 0x11 | fatbinCompatibility, Compression::Zstd,
                      "a.cu", std::string("\2\0\5", 3), "code"}));
  std::string bytes = before.container();
  FatbinEntry entry = readFatbin(bytes)->entries[0];
  FatbinWriter writer;
  REQUIRE(
      writer.replace(entry, "other code", std::string("\2\0\5\7\0\0\1\2\3", 9), Compression::Zstd));
  std::string changed = writer.container();
  FatbinEntry after = readFatbin(changed)->entries[0];
  CHECK(after.options == std::string("\2\0\5\7\0\0\1\2\3", 9));
  CHECK(after.ident == "a.cu");
  CHECK(after.flags == entry.flags);
  CHECK(after.archName() == "100");
  CHECK(decompress(after)->starts_with("other code"));
  FatbinWriter same;
  REQUIRE(same.replace(entry, "code", entry.options, Compression::Zstd));
  CHECK(same.container() == bytes);
}

TEST_CASE("a replaced entry may be compressed otherwise, and keeps the rest") {
  std::string bytes = sample(Compression::None);
  FatbinEntry entry = readFatbin(bytes)->entries[0];
  REQUIRE(entry.kind == FatbinKind::Elf);
  std::string code(1000, 'c');
  for (Compression compression : {Compression::Lz4, Compression::Zstd}) {
    CAPTURE(name(compression));
    FatbinWriter packed, raw;
    REQUIRE(packed.replace(entry, code, entry.options, compression));
    std::string changed = packed.container();
    FatbinEntry after = readFatbin(changed)->entries[0];
    CHECK(after.compression() == compression);
    CHECK(after.payload.size() < 100);
    CHECK(*decompress(after) == code);
    CHECK(after.archName() == entry.archName());
    CHECK((after.flags & ~(fatbinLz4 | fatbinZstd)) == entry.flags);
    REQUIRE(raw.replace(after, code, after.options, Compression::None));
    std::string again = raw.container();
    FatbinEntry last = readFatbin(again)->entries[0];
    CHECK(last.flags == entry.flags);
    CHECK(last.payload == code);
  }
}

TEST_CASE("a section's containers are found between zeros, and nothing else may be there") {
  std::string one = sample(), two = sample(Compression::Zstd);
  std::string section = one + std::string(16, '\0') + two + std::string(5, '\0');
  auto containers = readFatbins(section);
  REQUIRE(containers);
  REQUIRE(containers->size() == 2);
  CHECK((*containers)[0].bytes == one);
  CHECK((*containers)[1].bytes == two);
  CHECK((*containers)[1].offset == one.size() + 16);
  CHECK((*containers)[1].entries[1].offset > one.size() + 16);
  CHECK(readFatbins("")->empty());
  section[one.size()] = 'x';
  auto wrong = readFatbins(section);
  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().message == "damaged fatbin: at byte " + std::to_string(one.size()) +
                                     ": no container starts here (wrong magic number)");
}

TEST_CASE("a container in memory is found by its header") {
  std::string bytes = sample();
  std::string padded = bytes + "behind";
  CHECK(fatbinAt(padded.data()) == bytes);
  CHECK_FALSE(fatbinAt(nullptr));
  padded[0] = 'x';
  CHECK_FALSE(fatbinAt(padded.data()));
}

TEST_CASE("damage is named with its offset") {
  std::string bytes = sample();
  constexpr std::size_t entry = fatbinHeaderBytes;
  auto with = [&](std::size_t offset, std::uint64_t value, std::size_t size) {
    std::string copy = bytes;
    patch(copy, offset, value, size);
    return errorOf(copy);
  };
  CHECK(with(0, 1, 4).starts_with("damaged fatbin: at byte 0: "));
  CHECK(with(4, 2, 2).starts_with("damaged fatbin: at byte 4: containers of version 2"));
  CHECK(with(6, 24, 2).starts_with("damaged fatbin: at byte 6: "));
  CHECK(with(8, ~0ull, 8).starts_with("damaged fatbin: at byte 8: a container reaches beyond"));
  CHECK(with(8, bytes.size() - 32, 8).starts_with("damaged fatbin: at byte "));
  CHECK(with(entry + 4, 8, 4).starts_with("damaged fatbin: at byte 20: "));
  CHECK(with(entry + 4, ~0u, 4).starts_with("damaged fatbin: at byte 20: "));
  CHECK(with(entry + 8, ~0ull, 8).starts_with("damaged fatbin: at byte 24: "));
  CHECK(with(entry + 16, 25, 4).starts_with("damaged fatbin: at byte 32: "));
  std::size_t second = readFatbin(bytes)->entries[1].offset;
  auto at = [&](std::size_t place) {
    return "damaged fatbin: at byte " + std::to_string(second + place) + ": ";
  };
  CHECK(with(second + 20, ~0u, 4).starts_with(at(20)));
  CHECK(with(second + 32, ~0u, 4).starts_with(at(32)));
  // Texts lie behind the fixed part, never in it.
  CHECK(with(second + 20, 56, 4).starts_with(at(20)));
  CHECK(with(second + 32, 60, 4).starts_with(at(32)));
  CHECK(errorOf(bytes.substr(0, 10)) ==
        "damaged fatbin: at byte 0: the bytes end inside a container's header");
}

TEST_CASE("payloads whose size lies are errors, and make nothing large") {
  for (Compression compression : {Compression::Lz4, Compression::Zstd}) {
    CAPTURE(name(compression));
    std::string bytes = sample(compression);
    auto container = readFatbin(bytes);
    REQUIRE(container);
    FatbinEntry entry = container->entries[1];
    std::uint64_t right = entry.uncompressedBytes;
    for (std::uint64_t size : {right - 1, right + 1, std::uint64_t{1} << 29, ~std::uint64_t{0}}) {
      entry.uncompressedBytes = size;
      auto text = decompress(entry);
      REQUIRE_FALSE(text);
      CHECK(text.error().message.starts_with("damaged fatbin: at byte "));
    }
    entry.uncompressedBytes = right;
    CHECK_FALSE(decompress(entry, right - 1));
    entry.compressedBytes -= 3;
    CHECK_FALSE(decompress(entry));
  }
}

TEST_CASE("scrambled entries are named") {
  std::string bytes = sample();
  FatbinEntry entry = readFatbin(bytes)->entries[1];
  entry.flags |= fatbinScrambled;
  auto text = decompress(entry);
  REQUIRE_FALSE(text);
  CHECK(text.error().message.find("scrambled") != std::string::npos);
}

TEST_CASE("damaged containers never crash the reader, and its views stay inside") {
  for (Compression compression : {Compression::None, Compression::Lz4, Compression::Zstd}) {
    std::string bytes = sample(compression) + sample();
    for (std::uint64_t seed = 0; seed < 3000; ++seed) {
      std::string damaged = test::mutate(bytes, seed);
      auto containers = readFatbins(damaged);
      if (!containers) {
        CHECK(containers.error().message.starts_with("damaged fatbin: at byte "));
        continue;
      }
      for (const FatbinContainer &container : *containers)
        for (const FatbinEntry &entry : container.entries)
          if (auto text = decompress(entry, 1 << 20); !text)
            CHECK_FALSE(text.error().message.empty());
    }
  }
}
