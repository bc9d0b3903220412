#include "launches.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace tally::verify {

Result<std::vector<LaunchLine>> readLaunches(const std::string &table) {
  std::ifstream stream(table);
  if (!stream)
    return Error{fmt::format("cannot read '{}': {}", table, std::strerror(errno))};
  std::filesystem::path folder = std::filesystem::path(table).parent_path();
  std::vector<LaunchLine> lines;
  std::size_t number = 0;
  for (std::string text; std::getline(stream, text);) {
    ++number;
    std::istringstream fields(text);
    std::string file, kernel;
    if (!(fields >> file) || file.front() == '#')
      continue;
    if (!(fields >> kernel))
      return Error{fmt::format("{}:{}: a file, a kernel and options are needed", table, number)};
    LaunchLine line{text, {(folder / file).string(), "--kernel=" + kernel}};
    for (std::string option; fields >> option;)
      line.arguments.push_back(option);
    lines.push_back(std::move(line));
  }
  if (stream.bad())
    return Error{fmt::format("cannot read '{}': {}", table, std::strerror(errno))};
  return lines;
}

} // namespace tally::verify
