#include "tally/bundle/profile.h"

#include "tally/bundle/bundle.h"

#include <algorithm>
#include <charconv>
#include <system_error>

namespace tally::bundle {

namespace {

constexpr std::string_view profileMagic = "tally-profile ", firstLine = "tally-profile 3";
constexpr std::string_view wholeName = "whole", untriedName = "untried", endName = "end ",
                           policyName = "policy ";
/// Profiles of at most about 8 MB.
constexpr std::size_t mostEntries = 65536, mostPolicies = 4096;

std::string hex(std::uint64_t value) {
  std::array<char, 17> digits{};
  auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value, 16).ptr;
  return {digits.data(), end};
}

template <class Number> bool parseNumber(std::string_view text, Number &value, int base = 10) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return error == std::errc() && end == text.data() + text.size();
}

/// Returns the text up to `separator` and removes both from `text`.
std::string_view cut(std::string_view &text, char separator) {
  std::size_t at = text.find(separator);
  std::string_view part = text.substr(0, at);
  text = at == std::string_view::npos ? std::string_view() : text.substr(at + 1);
  return part;
}

/// Parses a time in nanoseconds; false for a negative one.
bool parseTime(std::string_view text, std::chrono::nanoseconds &time) {
  std::int64_t value = 0;
  if (!parseNumber(text, value) || value < 0)
    return false;
  time = std::chrono::nanoseconds(value);
  return true;
}

bool parseEntry(std::string_view line, ProfileKey &key, ProfileFound &found) {
  if (!parseNumber(cut(line, ' '), key.moduleHash, 16))
    return false;
  std::string_view kind = cut(line, ' ');
  found.kind = kindFromName(kind);
  if (!parseTime(cut(line, ' '), found.high) || !parseTime(cut(line, ' '), found.block))
    return false;
  if (found.isTried() ? !found.kind && kind != wholeName
                      : kind != untriedName || found.block.count() == 0)
    return false;
  std::string_view shape = cut(line, ' ');
  for (std::uint32_t &each : key.shape)
    if (!parseNumber(cut(shape, ','), each))
      return false;
  key.kernel = line;
  return shape.empty() && !line.empty();
}

/// Parses the line of a policy, without its first word.
bool parsePolicy(std::string_view line, ProfilePolicies &policies) {
  std::uint64_t program = 0;
  if (!parseNumber(cut(line, ' '), program, 16) || line.empty())
    return false;
  policies.emplace(program, line);
  return true;
}

Error at(std::size_t line, const std::string &what) {
  return Error{"line " + std::to_string(line) + ": " + what};
}

/// Returns the number of the last line of `text`, with or without its newline, from 1.
std::size_t lastLine(std::string_view text) {
  bool ends = text.ends_with('\n');
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) + (ends ? 0 : 1);
}

/// Returns the text before the checksum, if the checksum is right.
Result<std::string_view> checked(std::string_view text) {
  std::size_t last = text.rfind("\nend ");
  if (last == std::string_view::npos || text.back() != '\n')
    return at(lastLine(text), "damaged (the file ends here, without its checksum)");
  std::string_view body = text.substr(0, last + 1);
  std::string_view digits = text.substr(body.size() + endName.size());
  digits.remove_suffix(1);
  std::uint64_t checksum = 0;
  if (!parseNumber(digits, checksum, 16) || checksum != hashOf(body))
    return at(lastLine(text), "damaged (this checksum is not that of the lines before)");
  return body;
}

} // namespace

Result<Profile> parseProfile(std::string_view text) {
  std::string_view first = text.substr(0, text.find('\n'));
  if (!first.starts_with(profileMagic))
    return at(1,
              "this is no profile of tally's, which begins with '" + std::string(firstLine) + "'");
  if (first != firstLine)
    return at(1,
              "a profile of another version of tally than this one, whose profiles begin with '" +
                  std::string(firstLine) + "'");
  Result<std::string_view> body = checked(text);
  if (!body)
    return body.error();
  std::string_view rest = *body;
  cut(rest, '\n');
  Profile profile;
  profile.device = cut(rest, '\n');
  for (std::size_t line = 3; !rest.empty(); ++line) {
    ProfileKey key;
    ProfileFound found;
    std::string_view entry = cut(rest, '\n');
    if (entry.starts_with(policyName)) {
      if (!parsePolicy(entry.substr(policyName.size()), profile.policies))
        return at(line, "damaged (this is no policy of a profile)");
      continue;
    }
    if (!parseEntry(entry, key, found))
      return at(line, "damaged (this is no entry of a profile)");
    profile.entries.emplace(std::move(key), found);
  }
  return profile;
}

std::string printProfile(const Profile &profile) {
  std::string text(firstLine);
  text.append(1, '\n').append(profile.device).append(1, '\n');
  std::size_t count = 0;
  for (const auto &[program, learnt] : profile.policies) {
    if (count++ == mostPolicies)
      break;
    text.append(policyName).append(hex(program)).append(1, ' ').append(learnt).append(1, '\n');
  }
  count = 0;
  for (const auto &[key, found] : profile.entries) {
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
  std::uint64_t checksum = hashOf(text);
  return text.append(endName).append(hex(checksum)).append(1, '\n');
}

} // namespace tally::bundle
