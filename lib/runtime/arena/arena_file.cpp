#include "arena/arena_file.h"

#include "arena/arena_layout.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <grp.h>
#include <memory>
#include <sys/random.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <vector>

namespace tally::runtime {

namespace {

constexpr const char *sharedFolder = "/dev/shm/";

/// Closes its file descriptor at the end of a scope.
struct Descriptor {
  int number = -1;
  ~Descriptor() {
    if (number >= 0)
      close(number);
  }
  int take() { return std::exchange(number, -1); }
};

std::string valueOr(const std::string &given, const char *variable) {
  const char *value = given.empty() ? std::getenv(variable) : nullptr;
  return value ? value : given;
}

Result<gid_t> findGroup(const std::string &name) {
  gid_t number = 0;
  auto [end, wrong] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (wrong == std::errc() && end == name.data() + name.size())
    return number;
  std::vector<char> buffer(1 << 16);
  group entry{};
  group *found = nullptr;
  int code = getgrnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found);
  if (!found)
    return Error{"arena: there is no group '" + name + "'" +
                 (code != 0 ? ": " + std::generic_category().message(code) : "") +
                 "; a number is allowed too"};
  return entry.gr_gid;
}

bool isFileName(std::string_view text) {
  return !text.empty() && text.size() <= 100 && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '_';
  });
}

bool isFolder(const std::string &path) {
  struct stat facts{};
  return stat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode);
}

ArenaIdentification identify(std::string_view uuid) {
  ArenaIdentification made{};
  made.magic = arenaMagic;
  made.version = arenaVersion;
  made.slots = arenaSlots;
  made.bytes = sizeof(ArenaData);
  uuid.copy(made.uuid.data(), made.uuid.size());
  return made;
}

Result<void> writeAll(const ArenaPlace &place, int file) {
  std::vector<char> image(sizeof(ArenaData));
  ArenaIdentification identification = identify(place.uuid);
  std::memcpy(image.data(), &identification, sizeof identification);
  // Write all bytes instead of only setting the size: then a full file system is an error here, not
  // a SIGBUS later.
  for (std::size_t done = 0; done < image.size();) {
    ssize_t wrote =
        pwrite(file, image.data() + done, image.size() - done, static_cast<off_t>(done));
    if (wrote < 0 && errno != EINTR)
      return arenaFailure(place.path, "cannot be written", errno);
    done += static_cast<std::size_t>(std::max<ssize_t>(wrote, 0));
  }
  return {};
}

Result<void> make(const ArenaPlace &place) {
  std::uint64_t random = 0;
  if (getrandom(&random, sizeof random, 0) != sizeof random)
    return arenaFailure(place.path, "no random name for it", errno);
  std::string name = place.path + ".new-" + std::to_string(random);
  Descriptor file{open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600)};
  if (file.number < 0)
    return arenaFailure(place.path, "cannot be made", errno);
  Result<void> done = writeAll(place, file.number);
  if (done && place.group && fchown(file.number, static_cast<uid_t>(-1), *place.group) != 0)
    done = arenaFailure(place.path, "cannot be given to the group", errno);
  // fchmod() ignores the umask. It comes after fchown(), since a change of group may clear bits.
  if (done && fchmod(file.number, place.group ? 0660 : 0600) != 0)
    done = arenaFailure(place.path, "cannot be given its mode", errno);
  if (done && link(name.c_str(), place.path.c_str()) != 0 && errno != EEXIST)
    done = arenaFailure(place.path, "cannot be put in its place", errno);
  unlink(name.c_str());
  return done;
}

constexpr const char *advice = "; end the processes that use it and remove it, or set TALLY_ARENA "
                               "to another path";

Result<void> checkOwner(const ArenaPlace &place, const struct stat &facts) {
  if (!S_ISREG(facts.st_mode))
    return Error{place.path + ": the arena is no regular file"};
  if (place.group && (facts.st_gid != *place.group || (facts.st_mode & 0060) != 0060))
    return Error{place.path + ": the arena is there, but not open to group " +
                 std::to_string(*place.group) + advice};
  if (!place.isShared)
    return {};
  if (!place.group && facts.st_uid != geteuid())
    return Error{place.path + ": the arena belongs to user " + std::to_string(facts.st_uid) +
                 ", not to this process's"};
  if ((facts.st_mode & (place.group ? 0007 : 0077)) != 0)
    return Error{place.path + ": others than those it is for may open the arena" + advice};
  return {};
}

/// Reads the file's identification; fails where the file is no arena of this version.
Result<ArenaIdentification> identificationOf(const std::string &path, int file) {
  ArenaIdentification found{};
  ssize_t got = pread(file, &found, sizeof found, 0);
  if (got < 0)
    return arenaFailure(path, "cannot be read", errno);
  struct stat facts{};
  if (fstat(file, &facts) != 0)
    return arenaFailure(path, "cannot be looked at", errno);
  ArenaIdentification wanted = identify({});
  if (static_cast<std::size_t>(got) != sizeof found || found.magic != wanted.magic)
    return Error{path + ": not an arena" + advice};
  if (found.version != wanted.version)
    return Error{path + ": an arena of version " + std::to_string(found.version) +
                 "; this tally knows version " + std::to_string(wanted.version) + advice};
  if (found.slots != wanted.slots || found.bytes != wanted.bytes ||
      facts.st_size != static_cast<off_t>(sizeof(ArenaData)))
    return Error{path + ": a damaged arena" + advice};
  return found;
}

/// Whether an older version of Tally made the file and no process holds a slot of it any more.
/// Tests for any lock on the file, since the older version may have its locks at other offsets.
bool isLeftBehind(int file) {
  ArenaIdentification found{}, wanted = identify({});
  if (pread(file, &found, sizeof found, 0) != sizeof found || found.magic != wanted.magic ||
      found.version >= wanted.version)
    return false;
  struct flock any{};
  any.l_type = F_WRLCK;
  any.l_whence = SEEK_SET; // from the start; a length of 0 is the whole file
  return fcntl(file, F_OFD_GETLK, &any) == 0 && any.l_type == F_UNLCK;
}

Result<void> checkContents(const ArenaPlace &place, int file) {
  Result<ArenaIdentification> found = identificationOf(place.path, file);
  if (!found)
    return found.error();
  if (found->uuid != identify(place.uuid).uuid)
    return Error{place.path + ": the arena of another GPU; each needs its own" + advice};
  return {};
}

/// The group that may join, from the options, else from the environment. The file in /dev/shm is
/// named after the group if there is one.
Result<std::optional<gid_t>> groupFor(const ArenaOptions &options) {
  std::string name = valueOr(options.group, "TALLY_ARENA_GROUP");
  if (name.empty())
    return std::optional<gid_t>();
  Result<gid_t> found = findGroup(name);
  if (!found)
    return found.error();
  return std::optional(*found);
}

std::string sharedNamePrefix(std::optional<gid_t> group) {
  return std::string("tally-") + (group ? "g" : "") + std::to_string(group ? *group : geteuid()) +
         "-";
}

} // namespace

Error arenaFailure(const std::string &path, const char *what, int code) {
  return Error{path + ": the arena " + what + ": " + std::generic_category().message(code)};
}

Result<ArenaPlace> findArenaPlace(const ArenaOptions &options, std::string_view uuid) {
  ArenaPlace place;
  place.uuid = uuid;
  place.path = valueOr(options.path, "TALLY_ARENA");
  Result<std::optional<gid_t>> group = groupFor(options);
  if (!group)
    return group.error();
  place.group = *group;
  bool inFolder = !place.path.empty() && isFolder(place.path);
  if (!place.path.empty() && !inFolder)
    return place;
  // Only emulators have no UUID. Emulators with the same folder count as one GPU, as emulators with
  // the same file do.
  if (inFolder && uuid.empty()) {
    place.path += "/tally-emulator";
    return place;
  }
  if (!isFileName(uuid))
    return Error{"arena: the device has no UUID to name the file by; set a path"};
  if (inFolder) {
    place.path += "/tally-" + place.uuid;
    return place;
  }
  place.isShared = true;
  place.path = sharedFolder + sharedNamePrefix(place.group) + place.uuid;
  return place;
}

Result<ArenaGlob> findArenaGlob(const ArenaOptions &options) {
  if (isArenaOff(options))
    return ArenaGlob{};
  std::string path = valueOr(options.path, "TALLY_ARENA");
  if (!path.empty())
    return isFolder(path) ? ArenaGlob{path, "tally-"} : ArenaGlob{"", path};
  Result<std::optional<gid_t>> group = groupFor(options);
  if (!group)
    return group.error();
  return ArenaGlob{sharedFolder, sharedNamePrefix(*group)};
}

bool isArenaOff(const ArenaOptions &options) {
  return options.path.empty() && valueOr("", "TALLY_ARENA") == "off";
}

Result<int> openArenaFile(const ArenaPlace &place) {
  // A later attempt happens only if a process removes the file just after it was made.
  for (int attempt = 0; attempt < 10; ++attempt) {
    // No O_CREAT: in a folder like /dev/shm the system refuses it for another user's file.
    Descriptor file{open(place.path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)};
    if (file.number < 0 && errno == ENOENT) {
      if (Result<void> made = make(place); !made)
        return made.error();
      continue;
    }
    if (file.number < 0)
      return arenaFailure(place.path, "cannot be opened", errno);
    struct stat facts{};
    if (fstat(file.number, &facts) != 0)
      return arenaFailure(place.path, "cannot be looked at", errno);
    if (Result<void> fine = checkOwner(place, facts); !fine)
      return fine.error();
    if (isLeftBehind(file.number)) {
      // Do not remove a file that another process has put there meanwhile.
      struct stat there{};
      if (lstat(place.path.c_str(), &there) == 0 && there.st_dev == facts.st_dev &&
          there.st_ino == facts.st_ino && unlink(place.path.c_str()) != 0 && errno != ENOENT)
        return arenaFailure(place.path, "of an older version cannot be removed", errno);
      continue;
    }
    if (Result<void> fine = checkContents(place, file.number); !fine)
      return fine.error();
    // Fill holes in the file now, or refuse the file.
    if (fallocate(file.number, 0, 0, sizeof(ArenaData)) != 0 && errno != EOPNOTSUPP)
      return arenaFailure(place.path, "cannot be given its room", errno);
    return file.take();
  }
  return Error{place.path + ": the arena is removed again and again"};
}

Result<int> openArenaFileToRead(const std::string &path) {
  Descriptor file{open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)};
  if (file.number < 0)
    return arenaFailure(path, "cannot be opened", errno);
  if (Result<ArenaIdentification> found = identificationOf(path, file.number); !found)
    return found.error();
  return file.take();
}

} // namespace tally::runtime
