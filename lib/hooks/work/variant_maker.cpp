#include "work/variant_maker.h"

#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <spawn.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>
#include <vector>

namespace tally::hooks {

namespace {

namespace fs = std::filesystem;

/// The path of the maker, beside the file that holds this code.
std::string makerPath() {
  Dl_info self = {};
  if (dladdr(reinterpret_cast<void *>(&makerPath), &self) == 0 || !self.dli_fname)
    return {};
  fs::path path = fs::path(self.dli_fname).parent_path() / "make-variants";
  return access(path.c_str(), X_OK) == 0 ? path.string() : std::string();
}

/// posix_spawn, since a fork would call the program's fork handlers. The process that is waited for
/// starts another process and ends.
bool spawn(std::vector<std::string> words) {
  std::string path = makerPath();
  if (path.empty())
    return false;
  words.insert(words.begin(), path);
  std::vector<char *> arguments, environment;
  for (std::string &each : words)
    arguments.push_back(each.data());
  arguments.push_back(nullptr);
  for (char **each = environ; *each; ++each)
    if (std::strncmp(*each, "LD_PRELOAD=", 11) != 0)
      environment.push_back(*each);
  environment.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  for (int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    posix_spawn_file_actions_addopen(&files, stream, "/dev/null", stream == 0 ? 0 : 1, 0);
  pid_t child = 0;
  bool started =
      posix_spawn(&child, path.c_str(), &files, nullptr, arguments.data(), environment.data()) == 0;
  posix_spawn_file_actions_destroy(&files);
  while (started && waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return started;
}

} // namespace

bool startMaking(const std::string &store, const std::string &key, std::string_view source) {
  std::error_code failed;
  fs::create_directories(store, failed);
  fs::path file = fs::path(store) / (key + "-" + std::to_string(getpid()) + ".loaded");
  {
    std::ofstream text(file, std::ios::binary);
    text.write(source.data(), static_cast<std::streamsize>(source.size()));
    if (!text.flush())
      return false;
  }
  if (spawn({key, file.string()}))
    return true;
  fs::remove(file, failed);
  return false;
}

bool startMakingOfCaches() { return spawn({"--caches"}); }

} // namespace tally::hooks
