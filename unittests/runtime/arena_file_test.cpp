// The path of the arena's file, and the reaction to other files at that path.
#include "../support/variable.h"
#include "arena_folder.h"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <fstream>
#include <random>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace tally;
using namespace tally::runtime;

namespace {

using Bytes = std::vector<char>;

void put(const std::string &path, const Bytes &bytes) {
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

Bytes contents(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Returns the error of opening the arena; empty where it succeeds.
std::string complaint(const ArenaPlace &place) {
  auto opened = Arena::open(place);
  return opened ? "" : opened.error().message;
}

bool has(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

} // namespace

TEST_CASE("the place: options, environment, the user's own") {
  std::string user = std::to_string(geteuid());
  ArenaPlace own = *findArenaPlace({}, "abc-1");
  CHECK(own.path == "/dev/shm/tally-" + user + "-abc-1");
  CHECK(own.isShared);
  CHECK(findArenaPlace({"/x/y", {}}, "abc-1")->path == "/x/y");
  CHECK(findArenaPlace({"/x/y", {}}, "")->path == "/x/y");
  CHECK(findArenaPlace({{}, "4711"}, "abc-1")->path == "/dev/shm/tally-g4711-abc-1");
  CHECK(*findArenaPlace({{}, "4711"}, "abc-1")->group == 4711);
  CHECK(has(findArenaPlace({{}, "no such group"}, "abc-1").error().message, "no group 'no such"));
  CHECK(has(findArenaPlace({}, "").error().message, "no UUID"));
  CHECK(has(findArenaPlace({}, "../x").error().message, "no UUID"));

  ArenaFolder folder;
  CHECK(findArenaPlace({folder.path, {}}, "abc-1")->path == folder.path / "tally-abc-1");
  CHECK(findArenaPlace({folder.path, {}}, "")->path == folder.path / "tally-emulator");
  CHECK(has(findArenaPlace({folder.path, {}}, "../x").error().message, "no UUID"));
  test::Variable path("TALLY_ARENA", "/from/environment");
  test::Variable group("TALLY_ARENA_GROUP", "12");
  CHECK(findArenaPlace({}, "abc-1")->path == "/from/environment");
  CHECK(*findArenaPlace({}, "abc-1")->group == 12);
  CHECK(findArenaPlace({"/x/y", {}}, "abc-1")->path == "/x/y");
}

TEST_CASE("modes and owners") {
  ArenaFolder folder;
  struct stat facts{};
  mode_t before = umask(0);
  REQUIRE(complaint(folder.place()).empty());
  umask(before);
  REQUIRE(stat(folder.file().c_str(), &facts) == 0);
  CHECK((facts.st_mode & 0777) == 0600);

  ArenaPlace forGroup = folder.place();
  forGroup.group = getegid();
  CHECK(has(complaint(forGroup), "not open to group"));
  forGroup.path += "-group";
  before = umask(0077);
  REQUIRE(complaint(forGroup).empty());
  umask(before);
  REQUIRE(stat(forGroup.path.c_str(), &facts) == 0);
  CHECK((facts.st_mode & 0777) == 0660);

  ArenaPlace shared = folder.place();
  shared.isShared = true;
  CHECK(complaint(shared).empty());
  REQUIRE(chmod(folder.file().c_str(), 0602) == 0);
  CHECK(has(complaint(shared), "others than those"));
  REQUIRE(chmod(folder.file().c_str(), 0600) == 0);
  if (geteuid() == 0) {
    REQUIRE(chown(folder.file().c_str(), 4711, static_cast<gid_t>(-1)) == 0);
    CHECK(has(complaint(shared), "belongs to user 4711"));
  }
}

TEST_CASE("an older version's arena is replaced once nobody holds a slot of it") {
  ArenaFolder folder;
  REQUIRE(complaint(folder.place()).empty());
  Bytes older = contents(folder.file());
  older[8] = 1;
  older.resize(5000); // as another layout may be
  put(folder.file(), older);
  int holder = open(folder.file().c_str(), O_RDWR | O_CLOEXEC);
  REQUIRE(holder >= 0);
  struct flock slot{};
  slot.l_type = F_WRLCK;
  slot.l_start = 123456;
  slot.l_len = 1;
  REQUIRE(fcntl(holder, F_OFD_SETLK, &slot) == 0);
  CHECK(has(complaint(folder.place()), "an arena of version 1; this tally knows version 3"));
  CHECK(contents(folder.file()) == older);
  close(holder);
  CHECK(complaint(folder.place()).empty());
  CHECK(contents(folder.file()).size() == sizeof(ArenaData));
}

TEST_CASE("what is no arena is named and left as it is") {
  ArenaFolder folder;
  REQUIRE(complaint(folder.place()).empty());
  Bytes good = contents(folder.file());
  REQUIRE(good.size() == sizeof(ArenaData));

  auto complaintAbout = [&](const Bytes &bytes) {
    put(folder.file(), bytes);
    std::string said = complaint(folder.place());
    CHECK(contents(folder.file()) == bytes);
    return said;
  };
  CHECK(has(complaintAbout({}), "not an arena"));
  CHECK(has(complaintAbout(Bytes(30, 'x')), "not an arena"));
  CHECK(has(complaintAbout(Bytes(good.begin(), good.end() - 1)), "damaged"));
  Bytes longer = good;
  longer.push_back(0);
  CHECK(has(complaintAbout(longer), "damaged"));
  Bytes newer = good;
  newer[8] = 7;
  CHECK(complaintAbout(newer) == folder.file() +
                                     ": an arena of version 7; this tally knows version 3; end the "
                                     "processes that use it and remove it, or set TALLY_ARENA to "
                                     "another path");
  // A newer file may have another size; the error must still name the newer version.
  newer.resize(5000);
  CHECK(has(complaintAbout(newer), "version 7"));
  ArenaPlace other = folder.place();
  other.uuid = "gpv";
  put(folder.file(), good);
  CHECK(has(complaint(other), "another GPU"));
  CHECK(complaint(folder.place()).empty());

  std::filesystem::remove(folder.file());
  std::filesystem::create_symlink("/dev/null", folder.file());
  CHECK(has(complaint(folder.place()), "cannot be opened"));
  std::filesystem::remove(folder.file());
  REQUIRE(mkfifo(folder.file().c_str(), 0600) == 0);
  CHECK(has(complaint(folder.place()), "no regular file"));
  ArenaPlace nowhere = folder.place();
  nowhere.path += "/x/y";
  CHECK(has(complaint(nowhere), "cannot be opened"));
}

TEST_CASE("a file with holes gets its room") {
  ArenaFolder folder;
  REQUIRE(complaint(folder.place()).empty());
  Bytes good = contents(folder.file());
  good.resize(64);
  put(folder.file(), good);
  REQUIRE(truncate(folder.file().c_str(), sizeof(ArenaData)) == 0);
  REQUIRE(complaint(folder.place()).empty());
  struct stat facts{};
  REQUIRE(stat(folder.file().c_str(), &facts) == 0);
  CHECK(facts.st_blocks * 512 >= static_cast<blkcnt_t>(sizeof(ArenaData)));
}

TEST_CASE("any bytes behind a right head, or at random places: no crash, no endless loop") {
  ArenaFolder folder;
  REQUIRE(complaint(folder.place()).empty());
  Bytes good = contents(folder.file());
  std::mt19937_64 random(5);
  int opened = 0;
  for (int round = 0; round < 300; ++round) {
    Bytes bytes = good;
    std::size_t from = round % 2 == 0 ? 64 : 0;
    std::uint64_t density = 1 + random() % 64;
    for (std::size_t i = from; i < bytes.size(); ++i)
      if (random() % density == 0)
        bytes[i] = static_cast<char>(random());
    if (round % 5 == 0)
      bytes.resize(random() % (bytes.size() + 100));
    put(folder.file(), bytes);
    auto arena = Arena::open(folder.place());
    if (!arena)
      continue;
    ++opened;
    (*arena)->view();
    // All claims in the file belong to dead processes.
    auto slot = (*arena)->claim(static_cast<std::uint32_t>(random()), "x");
    REQUIRE(slot);
    (*slot)->raise();
    (*slot)->withdraw();
    (*arena)->sleepUnless([] { return true; }, Nanoseconds(1));
    for (std::uint32_t i = 0; i < arenaSlots; ++i)
      (*arena)->clearIfDead(i);
    CHECK((*arena)->higherActive(~0u) == 0);
    CHECK((*arena)->view().size() == 1);
  }
  CHECK(opened > 100);
}

TEST_CASE("many open it at once where there is none") {
  for (int round = 0; round < 30; ++round) {
    ArenaFolder folder;
    std::vector<std::thread> threads;
    std::vector<std::unique_ptr<ArenaSlot>> slots(8);
    for (std::size_t i = 0; i < slots.size(); ++i)
      threads.emplace_back([&, i] {
        if (auto arena = Arena::open(folder.place()))
          slots[i] = std::move(*(*arena)->claim(0, "x"));
      });
    for (std::thread &each : threads)
      each.join();
    // All opened the same file and took different slots; the folder has no other file.
    std::uint64_t taken = 0;
    for (const auto &slot : slots)
      taken |= slot ? std::uint64_t{1} << slot->index() : 0;
    CHECK(taken == 0xff);
    CHECK(std::distance(std::filesystem::directory_iterator(folder.path), {}) == 1);
  }
}
