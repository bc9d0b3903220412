#include "profile_store.h"

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>
#include <vector>

#include <unistd.h>

namespace tally::runtime {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view firstLine = "tally-profile 2";
constexpr std::string_view wholeName = "whole", untriedName = "untried";
/// About 8 MB.
constexpr std::size_t mostEntries = 65536;

std::string hex(std::uint64_t value) {
  std::array<char, 17> digits{};
  auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value, 16).ptr;
  return {digits.data(), end};
}

template <class Number> bool parseNumber(std::string_view text, Number &value, int base = 10) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return error == std::errc() && end == text.data() + text.size();
}

/// The text up to `separator`, which is taken off with it.
std::string_view cut(std::string_view &text, char separator) {
  std::size_t at = text.find(separator);
  std::string_view part = text.substr(0, at);
  text = at == std::string_view::npos ? std::string_view() : text.substr(at + 1);
  return part;
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

/// Not negative.
bool parseTime(std::string_view text, Nanoseconds &time) {
  std::int64_t value = 0;
  if (!parseNumber(text, value) || value < 0)
    return false;
  time = Nanoseconds(value);
  return true;
}

/// HASH KIND HIGH BLOCK SHAPE,... KERNEL
bool parseEntry(std::string_view line, ProfileStore::Key &key, ProfileStore::Found &found) {
  if (!parseNumber(cut(line, ' '), key.moduleHash, 16))
    return false;
  std::string_view kindName = cut(line, ' ');
  std::optional<Kind> kind;
  for (Kind each : allKinds)
    if (kindName == name(each))
      kind = each;
  found.kind = kind;
  if (!parseTime(cut(line, ' '), found.high) || !parseTime(cut(line, ' '), found.block))
    return false;
  if (found.isTried() ? !kind && kindName != wholeName
                      : kindName != untriedName || found.block.count() == 0)
    return false;
  std::string_view shape = cut(line, ' ');
  for (std::uint32_t &each : key.shape)
    if (!parseNumber(cut(shape, ','), each))
      return false;
  key.kernel = line;
  return shape.empty() && !line.empty();
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
    : path(std::move(path)), device(describe(device)) {
  std::optional<std::string> text = readAll(this->path);
  if (!text)
    return;
  Result<Entries> known = parse(*text);
  if (known)
    entries = std::move(*known);
  else
    said = this->path + ": " + known.error().message + "; it is ignored, and replaced";
}

Result<ProfileStore::Entries> ProfileStore::parse(const std::string &text) const {
  std::size_t last = text.rfind("end ");
  std::uint64_t checksum = 0;
  if (last == std::string::npos || text.back() != '\n' ||
      !parseNumber(std::string_view(text).substr(last + 4, text.size() - last - 5), checksum, 16) ||
      checksum != bundle::hashOf(std::string_view(text).substr(0, last)))
    return Error{"damaged (its checksum does not match)"};
  std::string_view rest = std::string_view(text).substr(0, last);
  if (cut(rest, '\n') != firstLine)
    return Error{"of another version of tally"};
  if (cut(rest, '\n') != device)
    return Error{"of another device or driver than " + device};
  Entries all;
  while (!rest.empty()) {
    Key key;
    Found found;
    if (!parseEntry(cut(rest, '\n'), key, found))
      return Error{"damaged (entry " + std::to_string(all.size() + 1) + ")"};
    all.emplace(std::move(key), found);
  }
  return all;
}

std::string ProfileStore::print(const Entries &all) const {
  std::string text(firstLine);
  text.append(1, '\n').append(device).append(1, '\n');
  std::size_t count = 0;
  for (const auto &[key, found] : all) {
    if (count++ == mostEntries)
      break;
    text.append(hex(key.moduleHash)).append(1, ' ');
    text.append(!found.isTried() ? untriedName : found.kind ? name(*found.kind) : wholeName);
    text.append(1, ' ').append(std::to_string(found.high.count())).append(1, ' ');
    text.append(std::to_string(found.block.count())).append(1, ' ');
    for (std::uint32_t each : key.shape)
      text.append(std::to_string(each)).append(1, ',');
    text.back() = ' ';
    text.append(key.kernel).append(1, '\n');
  }
  std::uint64_t checksum = bundle::hashOf(text);
  return text.append("end ").append(hex(checksum)).append(1, '\n');
}

std::optional<ProfileStore::Found> ProfileStore::find(const Key &key) const {
  std::unique_lock lock(mutex);
  auto known = entries.find(key);
  return known == entries.end() ? std::nullopt : std::optional(known->second);
}

void ProfileStore::put(const Key &key, const Found &found) {
  if (key.kernel.find('\n') != std::string::npos)
    return;
  std::unique_lock lock(mutex);
  entries[key] = found;
  added[key] = found;
}

Result<void> ProfileStore::save() {
  std::unique_lock lock(mutex);
  if (added.empty())
    return {};
  Entries all = added;
  if (std::optional<std::string> text = readAll(path))
    if (Result<Entries> others = parse(*text))
      all.merge(*others);
  std::error_code failed;
  fs::create_directories(fs::path(path).parent_path(), failed);
  // Of its own process, so that two that write at a time do not mix.
  std::string temporary = path + "." + std::to_string(getpid());
  {
    std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
    file << print(all);
    file.close();
    if (!file) {
      fs::remove(temporary, failed);
      return Error{temporary + ": cannot be written"};
    }
  }
  fs::rename(temporary, path, failed);
  if (failed)
    return Error{path + ": " + failed.message()};
  added.clear();
  return {};
}

} // namespace tally::runtime
