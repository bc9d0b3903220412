// The command line of tally-top.
#ifndef TALLY_TOP_OPTIONS_H
#define TALLY_TOP_OPTIONS_H

#include "tally/support/result.h"

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tally::top {

enum class Output : std::uint8_t { Table, Json, Prometheus };

struct Options {
  bool help = false, version = false; ///< the other members are unset then
  bool once = false;                  ///< one interval; Prometheus is always once
  Output output = Output::Table;
  std::chrono::milliseconds interval{1000};
  std::string arena; ///< a file or a folder; empty: the default place
};

/// Parses `arguments`, without the program's name. The error names the option and its valid values.
Result<Options> parseOptions(std::span<const std::string_view> arguments);

extern const char *const helpText;

} // namespace tally::top

#endif
