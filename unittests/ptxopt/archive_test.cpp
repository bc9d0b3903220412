// Archives: the code splits and replaces members, symbols still lead to their members, and damage
// is named.
#include "archive.h"

#include "../support/mutate.h"

#include <doctest/doctest.h>

using namespace tally;
using namespace tally::ptxopt;

namespace {

std::string header(const std::string &name, std::size_t size) {
  std::string text = name;
  text.resize(16, ' ');
  text += "0           0     0     644     ";
  text += std::to_string(size);
  text.resize(58, ' ');
  return text + "`\n";
}

std::string member(const std::string &name, const std::string &bytes) {
  return header(name, bytes.size()) + bytes + (bytes.size() % 2 ? "\n" : "");
}

std::string big(std::uint64_t value, unsigned size) {
  std::string bytes;
  while (size != 0)
    bytes += static_cast<char>(value >> 8 * --size & 0xff);
  return bytes;
}

/// An archive with the symbols f (in a.o) and g (in the member with the long name); offsets have
/// `width` bytes.
std::string sample(unsigned width) {
  std::string names = "a_member_with_a_long_name.o/\n";
  std::string table = width == 4 ? "/" : "/SYM64/";
  std::size_t tableBytes = 3 * width + 4;
  std::size_t first = 8 + 60 + tableBytes + 60 + names.size() + names.size() % 2;
  std::size_t second = first + 60 + 6;
  return "!<arch>\n" +
         member(table,
                big(2, width) + big(first, width) + big(second, width) + std::string("f\0g\0", 4)) +
         member("//", names) + member("a.o/", "first") + member("/0", "second!!");
}

std::uint64_t bigAt(const std::string &bytes, std::size_t at, unsigned size) {
  std::uint64_t value = 0;
  for (unsigned i = 0; i < size; ++i)
    value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

} // namespace

TEST_CASE("members have their names, long ones too") {
  std::string bytes = sample(4);
  auto members = readArchive(bytes);
  REQUIRE(members);
  REQUIRE(members->size() == 4);
  CHECK((*members)[0].isTable);
  CHECK((*members)[1].isTable);
  CHECK((*members)[2].name == "a.o");
  CHECK((*members)[2].bytes == "first");
  CHECK((*members)[3].name == "a_member_with_a_long_name.o");
  CHECK((*members)[3].bytes == "second!!");
}

TEST_CASE("symbols find members that have moved") {
  for (unsigned width : {4u, 8u}) {
    std::string bytes = sample(width);
    auto members = readArchive(bytes);
    REQUIRE(members);
    std::vector<std::optional<std::string>> contents(4);
    auto same = replaceMembers(bytes, *members, contents);
    REQUIRE(same);
    CHECK(*same == bytes);
    contents[2] = "longer than before, and odd";
    auto changed = replaceMembers(bytes, *members, contents);
    REQUIRE(changed);
    auto after = readArchive(*changed);
    REQUIRE(after);
    REQUIRE(after->size() == 4);
    CHECK((*after)[2].bytes == *contents[2]);
    CHECK((*after)[3].name == "a_member_with_a_long_name.o");
    CHECK((*after)[3].bytes == "second!!");
    CHECK(bigAt(*changed, 68 + width, width) == (*after)[2].offset);
    CHECK(bigAt(*changed, 68 + 2 * width, width) == (*after)[3].offset);
  }
}

TEST_CASE("damage is named with its offset") {
  auto errorOf = [](const std::string &bytes) {
    auto members = readArchive(bytes);
    if (!members)
      return members.error().message;
    auto same =
        replaceMembers(bytes, *members, std::vector<std::optional<std::string>>(members->size()));
    return same ? std::string("none") : same.error().message;
  };
  CHECK(errorOf("x") == "damaged archive: at byte 0: this is no archive");
  CHECK(errorOf("!<arch>\nx") == "damaged archive: at byte 8: no member's header is here");
  CHECK(errorOf("!<arch>\n" + header("a.o/", 1)) ==
        "damaged archive: at byte 56: a member reaches beyond the end");
  CHECK(errorOf("!<arch>\n" + header("/7", 0)) ==
        "damaged archive: at byte 8: a member's name is not in the table of names");
  CHECK(errorOf("!<arch>\n" + member("/", big(1, 4))) ==
        "damaged archive: at byte 68: the table of symbols is larger than its member");
  CHECK(errorOf("!<arch>\n" + member("/", big(1, 4) + big(9, 4))) ==
        "damaged archive: at byte 72: no member starts where a symbol's should");
  CHECK(errorOf("!<arch>\n" + member("/", "")) ==
        "damaged archive: at byte 68: the table of symbols is larger than its member");
  CHECK(errorOf("!<arch>\n" + member("/", big(0xffffffff, 4))).starts_with("damaged archive: at"));
}

TEST_CASE("damaged archives never crash the reader, and members lie inside") {
  std::string bytes = sample(4);
  for (std::uint64_t seed = 0; seed < 5000; ++seed) {
    std::string damaged = test::mutate(bytes, seed, "/0 `\n");
    auto members = readArchive(damaged);
    if (!members) {
      CHECK(members.error().message.starts_with("damaged archive: at byte "));
      continue;
    }
    for (const ArchiveMember &each : *members)
      CHECK((each.bytes.empty() ||
             each.bytes.data() + each.bytes.size() <= damaged.data() + damaged.size()));
    std::vector<std::optional<std::string>> contents(members->size());
    if (auto written = replaceMembers(damaged, *members, contents))
      CHECK(written->size() <= damaged.size() + 1);
  }
}
