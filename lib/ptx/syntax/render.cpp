#include "tally/ptx/syntax/render.h"

#include <algorithm>

namespace tally::ptx {

namespace {

/// render() cuts longer lines: a table in an initialiser may be one line of megabytes.
constexpr std::size_t maxShownBytes = 160;

std::string_view lineAround(std::string_view source, std::size_t offset, std::size_t &start) {
  const std::size_t before = offset == 0 ? std::string_view::npos : source.rfind('\n', offset - 1);
  start = before == std::string_view::npos ? 0 : before + 1;
  const std::size_t end = std::min(source.find('\n', offset), source.size());
  if (offset - start > maxShownBytes / 2)
    start = offset - maxShownBytes / 2;
  return source.substr(start, std::min(end - start, maxShownBytes));
}

} // namespace

LineAndColumn placeOf(std::string_view source, std::size_t offset) {
  const std::string_view before = source.substr(0, offset);
  const std::size_t newline = before.rfind('\n');
  const std::size_t column = newline == std::string_view::npos ? offset : offset - newline - 1;
  return {static_cast<std::uint32_t>(std::count(before.begin(), before.end(), '\n') + 1),
          static_cast<std::uint32_t>(column + 1)};
}

std::string render(const Diagnostic &diagnostic, std::string_view fileName,
                   std::string_view source) {
  const std::size_t offset = std::min(diagnostic.offset, source.size());
  const LineAndColumn place = placeOf(source, offset);
  std::string text(fileName);
  text += ':' + std::to_string(place.line) + ':' + std::to_string(place.column) +
          ": error: " + diagnostic.message + '\n';

  std::size_t start = 0;
  const std::string_view line = lineAround(source, offset, start);
  for (char c : line) // '?' replaces control characters, which a terminal would obey
    text += (c < ' ' && c != '\t') || c == '\x7f' ? '?' : c;
  text += '\n';
  for (char c : line.substr(0, offset - start)) // tabs keep the caret under its byte
    text += c == '\t' ? '\t' : ' ';
  text += '^';
  const std::size_t rest = line.size() - std::min(line.size(), offset - start);
  const std::size_t underlined = std::min(diagnostic.length, rest);
  text.append(underlined > 1 ? underlined - 1 : 0, '~');
  return text += '\n';
}

} // namespace tally::ptx
