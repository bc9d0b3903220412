#include "tally/bundle/variant_store.h"

#include "tally/bundle/fatbin.h"
#include "tally/bundle/fatbin_writer.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <cstring>
#include <elf.h>
#include <string>

using namespace tally::bundle;

TEST_CASE("an image's key is its FNV-1a of 128 bits") {
  // The vectors of RFC 9923's reference code.
  CHECK(imageKey("") == "6c62272e07bb014262b821756295c58d");
  CHECK(imageKey("a") == "d228cb696f1a8caf78912b704e4a8964");
  CHECK(imageKey("foobar") == "343e1662793c64bf6f0d3597ba446f18");
}

TEST_CASE("the bytes of an image are found by its own sizes") {
  CHECK(deviceImageAt(nullptr).empty());

  const char text[] = "\n  // a comment\n.version 8.0\n";
  CHECK(deviceImageAt(text) == text);
  CHECK(deviceImageAt(".version 8.0") == ".version 8.0");
  CHECK(deviceImageAt("something else").empty());

  std::string elf(300, '\x5a');
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_shoff = 64;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 2;
  SUBCASE("sections last") { CHECK(64 + 2 * sizeof(Elf64_Shdr) == 192); }
  SUBCASE("segments last") {
    header.e_phoff = 136;
    header.e_phentsize = sizeof(Elf64_Phdr);
    header.e_phnum = 1;
    CHECK(136 + sizeof(Elf64_Phdr) == 192);
  }
  std::memcpy(elf.data(), &header, sizeof header);
  CHECK(deviceImageAt(elf.data()) == std::string_view(elf).substr(0, 192));

  FatbinWriter writer;
  NewFatbinEntry entry;
  entry.kind = FatbinKind::Ptx;
  entry.arch = 90;
  entry.payload = text;
  REQUIRE(writer.add(entry));
  std::string container = writer.container();
  std::string followed = container + "and more";
  CHECK(deviceImageAt(followed.data()) == container);
  struct {
    std::uint32_t magic = fatbinWrapperMagic, version = 1;
    const void *container = nullptr, *none = nullptr;
  } wrapper;
  wrapper.container = followed.data();
  CHECK(deviceImageAt(&wrapper) == container);
}

TEST_CASE("the store is in the user's cache") {
  setenv("XDG_CACHE_HOME", "/caches", 1);
  CHECK(VariantStore::defaultFolder() == "/caches/tally/variants");
  setenv("XDG_CACHE_HOME", "relative", 1); // the XDG specification ignores a relative path
  setenv("HOME", "/users/one", 1);
  CHECK(VariantStore::defaultFolder() == "/users/one/.cache/tally/variants");
  unsetenv("XDG_CACHE_HOME");
  unsetenv("HOME");
  CHECK(VariantStore::defaultFolder().empty());
  std::string bundle = VariantStore("/a").bundleOf("0123");
  CHECK(bundle.starts_with("/a/0123-"));
  CHECK(bundle.ends_with(".tally"));
}
