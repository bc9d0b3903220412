// Helpers for parts of paths and of files' bytes.
#ifndef TALLY_LAUNCHER_TEXT_H
#define TALLY_LAUNCHER_TEXT_H

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tally::launcher {

/// Returns the part behind the last slash.
inline std::string_view fileName(std::string_view path) { return path.substr(path.rfind('/') + 1); }

/// Returns the parts of `text` between the separators, without empty ones.
inline std::vector<std::string> split(std::string_view text, const char *separators) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = std::min(text.find_first_of(separators, at), text.size());
    if (end > at)
      parts.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

/// Returns the structure at `offset`; nullopt where the bytes end before its end.
template <class Structure>
std::optional<Structure> structureAt(std::string_view bytes, std::uint64_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(Structure))
    return std::nullopt;
  Structure result;
  std::memcpy(&result, bytes.data() + offset, sizeof result);
  return result;
}

/// Returns the text at `offset`, up to a zero; empty where `offset` is behind the end.
inline std::string_view textAt(std::string_view bytes, std::uint64_t offset) {
  std::string_view rest = bytes.substr(std::min<std::uint64_t>(offset, bytes.size()));
  return rest.substr(0, rest.find('\0'));
}

} // namespace tally::launcher

#endif
