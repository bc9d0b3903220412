#include "maker.h"

#include "base/cpus.h"

#include "tally/bundle/variant_store.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <optional>
#include <spawn.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>
#include <vector>

namespace tally::variants {

namespace fs = std::filesystem;

namespace {

/// An open file; the destructor closes it.
class File {
public:
  explicit File(int number) : number(number) {}
  ~File() {
    if (number >= 0)
      close(number);
  }
  File(const File &) = delete;
  File &operator=(const File &) = delete;
  int get() const { return number; }

private:
  int number;
};

/// Waits for one of a few locks. The process id chooses the lock, so that the process waits for a
/// single lock.
class Turn {
public:
  explicit Turn(const fs::path &store) : lock(openOne(store)) {
    while (lock.get() >= 0 && flock(lock.get(), LOCK_EX) != 0 && errno == EINTR) {
    }
  }

private:
  static int openOne(const fs::path &store) {
    unsigned turns = std::max(runtime::availableCpus() / 4, 1u);
    std::string name = "turn-" + std::to_string(static_cast<unsigned>(getpid()) % turns);
    return open((store / name).c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  }
  File lock;
};

/// Runs a command without the preloaded library; returns its exit status, or 127.
int run(const std::vector<std::string> &command) {
  std::vector<char *> words;
  for (const std::string &each : command)
    words.push_back(const_cast<char *>(each.c_str()));
  words.push_back(nullptr);
  pid_t child = 0;
  if (posix_spawn(&child, words[0], nullptr, nullptr, words.data(), environ) != 0)
    return 127;
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 127;
}

/// Files that a killed process has left behind are removed after this time.
constexpr std::chrono::hours leftFor{1};

/// Removes the oldest bundles until the remaining ones have no more than `most` bytes.
void trim(const fs::path &store, std::uint64_t most) {
  struct Entry {
    fs::file_time_type written;
    std::uint64_t bytes;
    fs::path path;
  };
  std::vector<Entry> entries;
  std::uint64_t sum = 0;
  std::error_code ignored;
  for (fs::directory_iterator each(store, ignored), end; each != end; each.increment(ignored)) {
    fs::path path = each->path();
    if (path.extension() != ".tally") {
      bool isLock = path.filename().string().starts_with("turn-");
      fs::file_time_type written = each->last_write_time(ignored);
      if (!isLock && !ignored && written < fs::file_time_type::clock::now() - leftFor)
        fs::remove(path, ignored);
      continue;
    }
    std::uint64_t bytes = each->file_size(ignored);
    entries.push_back({each->last_write_time(ignored), bytes, each->path()});
    sum += bytes;
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry &a, const Entry &b) { return a.written < b.written; });
  for (auto each = entries.begin(); each != entries.end() && sum > most; ++each) {
    fs::remove(each->path, ignored); // another process may have removed it
    sum -= each->bytes;
  }
}

fs::path ownFolder() {
  std::error_code none;
  return fs::read_symlink("/proc/self/exe", none).parent_path();
}

fs::path findInPath(std::string_view name) {
  const char *all = std::getenv("PATH");
  std::string_view rest = all ? all : "";
  while (!rest.empty()) {
    std::size_t end = std::min(rest.find(':'), rest.size());
    fs::path candidate = fs::path(rest.substr(0, end)) / name;
    if (access(candidate.c_str(), X_OK) == 0)
      return candidate;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return {};
}

} // namespace

std::optional<std::string> readFile(const fs::path &path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return std::nullopt;
  return std::string((std::istreambuf_iterator<char>(file)), {});
}

Result<Making> findPlaces() {
  Making found;
  const char *given = std::getenv("TALLY_VARIANTS");
  std::string folder = given && *given ? given : bundle::VariantStore::defaultFolder();
  if (folder.empty() || folder == "off")
    return Error{"there is no store of variants (TALLY_VARIANTS, XDG_CACHE_HOME and HOME)"};
  found.store = folder;
  fs::path own = ownFolder();
  for (const fs::path &each : {own / "../../bin/tally-ptxopt", own / "../../../bin/tally-ptxopt",
                               fs::path(TALLY_BUILT_PTXOPT)})
    if (found.ptxopt.empty() && access(each.c_str(), X_OK) == 0)
      found.ptxopt = each;
  if (found.ptxopt.empty())
    found.ptxopt = findInPath("tally-ptxopt");
  if (found.ptxopt.empty())
    return Error{"tally-ptxopt is not found beside this program or in PATH"};
  return found;
}

Result<bool> makeVariants(const Making &making, std::string_view key, std::string_view source) {
  std::error_code failed;
  fs::create_directories(making.store, failed);
  if (failed)
    return Error{making.store.string() + ": " + failed.message()};
  fs::path bundle = bundle::VariantStore(making.store.string()).bundleOf(key);
  if (fs::exists(bundle, failed))
    return true;
  Turn turn(making.store);
  if (fs::exists(bundle, failed))
    return true; // another process has made it meanwhile
  std::string name = std::string(key) + "-" + std::to_string(getpid()) + ".ptx";
  fs::path text = making.store / name;
  {
    std::ofstream file(text, std::ios::binary);
    file.write(source.data(), static_cast<std::streamsize>(source.size()));
    if (!file.flush())
      return Error{text.string() + ": " + std::strerror(errno)};
  }
  std::vector<std::string> command = {making.ptxopt.string(), text.string(), "--emit=bundle", "-o",
                                      bundle.string()};
  int status = -1;
  for (const fs::path &each : making.assemblers)
    if (status != 0) {
      command.push_back("--ptxas=" + each.string());
      status = run(command);
      command.pop_back();
    }
  if (status != 0)
    status = run(command);
  fs::remove(text, failed);
  trim(making.store, making.mostBytes);
  return status == 0 && fs::exists(bundle, failed);
}

void makeVariantsOfCache(const Making &making, const fs::path &folder) {
  std::error_code failed;
  fs::recursive_directory_iterator each(folder, failed), end;
  for (; each != end; each.increment(failed)) {
    fs::path path = each->path();
    if (path.extension() != ".cubin")
      continue;
    std::optional<std::string> code = readFile(path);
    std::optional<std::string> ptx = readFile(path.replace_extension(".ptx"));
    if (code && ptx)
      static_cast<void>(makeVariants(making, bundle::imageKey(*code), *ptx)); // go on if it fails
  }
}

} // namespace tally::variants
