#include "planning/profile_store.h"

#include "tally/bundle/bundle.h"

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include <unistd.h>

namespace tally::runtime {

namespace {

namespace fs = std::filesystem;

std::string hex(std::uint64_t value) {
  std::array<char, 17> digits{};
  auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value, 16).ptr;
  return {digits.data(), end};
}

std::string describe(const DeviceInfo &device) {
  return device.name + ", driver " + std::to_string(device.driverVersion);
}

std::optional<std::string> readAll(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

} // namespace

std::string ProfileStore::defaultPath(const DeviceInfo &device) {
  const char *cache = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
  if (device.driverVersion == 0)
    return {};
  std::string folder = cache && *cache == '/' ? std::string(cache)
                       : home && *home == '/' ? std::string(home) + "/.cache"
                                              : std::string();
  if (folder.empty())
    return {};
  return folder + "/tally/profile-" + hex(bundle::hashOf(describe(device)));
}

ProfileStore::ProfileStore(std::string path, const DeviceInfo &device)
    : path(std::move(path)), device(describe(device)),
      program(bundle::hashOf(readAll("/proc/self/cmdline").value_or(""))) {
  std::optional<std::string> text = readAll(this->path);
  if (!text)
    return;
  if (Result<bundle::Profile> read = parse(*text))
    known = std::move(*read);
  else
    said = this->path + ": " + read.error().message + "; it is ignored, and replaced";
}

Result<bundle::Profile> ProfileStore::parse(const std::string &text) const {
  Result<bundle::Profile> read = bundle::parseProfile(text);
  if (read && read->device != device)
    return Error{"line 2: of another device or driver than " + device};
  return read;
}

std::optional<ProfileStore::Found> ProfileStore::find(const Key &key) const {
  std::unique_lock lock(mutex);
  auto entry = known.entries.find(key);
  return entry == known.entries.end() ? std::nullopt : std::optional(entry->second);
}

void ProfileStore::put(const Key &key, const Found &found) {
  if (key.kernel.find('\n') != std::string::npos)
    return;
  std::unique_lock lock(mutex);
  known.entries[key] = added.entries[key] = found;
}

std::string ProfileStore::policyMemory() const {
  std::unique_lock lock(mutex);
  auto entry = known.policies.find(program);
  return entry == known.policies.end() ? std::string() : entry->second;
}

void ProfileStore::putPolicyMemory(const std::string &text) {
  if (text.empty() || text.find('\n') != std::string::npos)
    return;
  std::unique_lock lock(mutex);
  if (std::string &kept = known.policies[program]; kept != text)
    kept = added.policies[program] = text;
}

Result<void> ProfileStore::save() {
  std::unique_lock lock(mutex);
  if (added.entries.empty() && added.policies.empty())
    return {};
  bundle::Profile all = added;
  all.device = device;
  if (std::optional<std::string> text = readAll(path))
    if (Result<bundle::Profile> others = parse(*text)) {
      all.entries.merge(others->entries);
      all.policies.merge(others->policies);
    }
  std::error_code failed;
  fs::create_directories(fs::path(path).parent_path(), failed);
  // A name with the process's number, so that two processes that write at a time do not mix.
  std::string temporary = path + "." + std::to_string(getpid());
  {
    std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
    file << bundle::printProfile(all);
    file.close();
    if (!file) {
      fs::remove(temporary, failed);
      return Error{temporary + ": cannot be written"};
    }
  }
  fs::rename(temporary, path, failed);
  if (failed)
    return Error{path + ": " + failed.message()};
  added = {};
  return {};
}

} // namespace tally::runtime
