#include "input.h"

#include "tally/bundle/bundle_reader.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

namespace tally::verify {

Result<bundle::Bundle> readInput(const std::string &path, const std::string &coding,
                                 std::uint64_t pollPeriod) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream)
    return Error{fmt::format("cannot read '{}': {}", path, std::strerror(errno))};
  std::ostringstream content;
  content << stream.rdbuf();
  if (stream.bad())
    return Error{fmt::format("cannot read '{}': {}", path, std::strerror(errno))};
  std::string bytes = std::move(content).str();
  if (!bytes.starts_with(bundle::magic))
    return rewriteToBundle(std::move(bytes), path, coding, pollPeriod);
  auto bundle = bundle::read(bytes);
  if (!bundle)
    return Error{fmt::format("{}: {}", path, bundle.error().message)};
  return bundle;
}

} // namespace tally::verify
