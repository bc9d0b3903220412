// The command line of the launcher.
#ifndef TALLY_LAUNCHER_COMMAND_LINE_H
#define TALLY_LAUNCHER_COMMAND_LINE_H

#include "options.h" // of tally-top

#include "tally/support/result.h"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tally::launcher {

/// Text to write: for `tally --help`, `tally run --help`, `tally --version`.
struct Text {
  std::string text;
};

struct RunOptions {
  bool bestEffort = false;
  /// The value of --best-effort=; empty without it.
  std::string bestEffortClass;
  bool statistics = false;
  std::optional<std::string> arena, policy, trace; ///< values of the options, not empty
  std::vector<std::string> command;                ///< with its arguments; not empty
};

struct DoctorOptions {
  bool json = false;
  std::vector<std::string> command; ///< empty: no particular command
};

struct AdviseOptions {
  double over = 100; ///< microseconds: work that held requests up for less is not named
  std::vector<std::string> traces; ///< files; not empty
};

/// The action to take. `tally status` takes the options of `tally-top --once`.
using Request = std::variant<Text, RunOptions, top::Options, DoctorOptions, AdviseOptions>;

/// Parses `arguments`, without the program's name. The error names the option and its valid values.
Result<Request> parseCommandLine(std::span<const std::string_view> arguments);

} // namespace tally::launcher

#endif
