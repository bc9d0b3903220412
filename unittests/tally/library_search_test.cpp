// The search for libraries as the loader does it, and the symbols of libraries.
#include "elf_file.h"
#include "library_search.h"
#include "scratch_folder.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace tally::launcher;

namespace {

std::string number(std::uint32_t value) {
  return {reinterpret_cast<const char *>(&value), sizeof value};
}

/// A glibc loader cache with one library.
std::string cacheOf(const std::string &name, const std::string &path) {
  const std::uint32_t strings = 48 + 24;
  std::string bytes = "glibc-ld.so.cache1.1" + number(1) + std::string(24, '\0');
  bytes += number(0x303) + number(strings) +
           number(strings + 1 + static_cast<std::uint32_t>(name.size()));
  bytes += std::string(12, '\0');
  return bytes + name + '\0' + path + '\0';
}

bool contains(const std::vector<std::string> &all, const std::string &name) {
  return std::any_of(all.begin(), all.end(), [&](const std::string &each) {
    return each.substr(each.rfind('/') + 1) == name;
  });
}

} // namespace

TEST_CASE("the loader's cache is read, and damaged ones are harmless") {
  std::string bytes = cacheOf("liba.so.1", "/x/liba.so.1");
  LoaderCache cache = readLoaderCache(bytes);
  REQUIRE(cache.size() == 1);
  CHECK(cache.find("liba.so.1")->second == "/x/liba.so.1");
  CHECK(readLoaderCache("ld.so-1.7.0" + std::string(13, '\0') + bytes).size() == 1);
  CHECK(readLoaderCache("").empty());
  for (std::size_t size = 0; size < bytes.size(); ++size)
    CHECK(readLoaderCache(std::string_view(bytes).substr(0, size)).size() <= 1);
}

TEST_CASE("libraries are found in the loader's order, each file once") {
  ScratchFolder scratch;
  auto copy = [&](const std::string &folder, const std::string &name) {
    std::string path = scratch.folder(folder) + "/" + name;
    std::filesystem::copy_file(TALLY_NEEDED_LIBRARY, path);
    return path;
  };
  const std::string name = "libtally_search_test.so.1";
  std::string inCache = copy("cache", name), inPath = copy("path", name);
  std::string before = copy("before", name), behind = copy("behind", name);
  scratch.folder("wrong");
  scratch.file("wrong/" + name, "no library");
  std::string link = scratch.folder("link") + "/" + name;
  std::filesystem::create_symlink(inPath, link);
  LibrarySearch search(scratch.path + "/wrong:" + scratch.path + "/path:" + scratch.path + "/link",
                       readLoaderCache(cacheOf(name, inCache)));
  CHECK(search.findAll(name, {scratch.path + "/before"}, {scratch.path + "/behind"}) ==
        std::vector{before, inPath, behind, inCache});
  CHECK(search.findAll(name) == std::vector{inPath, inCache});
  CHECK(search.findAll("libtally_search_test.so.2").empty());
  CHECK(search.findAll(before) == std::vector{before});
}

TEST_CASE("a program's libraries are those that its files name") {
  std::vector<std::string> files = LibrarySearch::ofProcess().closureOf(TALLY_NEEDING_PROGRAM);
  CHECK(files.front() == TALLY_NEEDING_PROGRAM);
  CHECK(contains(files, "liblauncher_needed.so"));
  CHECK(contains(files, "libc.so.6"));
  CHECK(LibrarySearch("", {}).closureOf("/no/such/file").size() == 1);
}

TEST_CASE("symbols that a file has and those that it asks for are told apart") {
  MappedFile library(TALLY_NEEDED_LIBRARY), program(TALLY_NEEDING_PROGRAM);
  CHECK(importsSymbol(library.bytes(), "dlmopen"));
  CHECK_FALSE(exportsSymbol(library.bytes(), "dlmopen"));
  CHECK(exportsSymbol(library.bytes(), "launcher_needed"));
  CHECK_FALSE(importsSymbol(library.bytes(), "launcher_needed"));
  CHECK(importsSymbol(program.bytes(), "launcher_needed"));
  CHECK_FALSE(importsSymbol(library.bytes(), "launcher"));
  CHECK_FALSE(importsSymbol("", "dlmopen"));
}
