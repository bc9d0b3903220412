#include "options.h"

#include <charconv>
#include <optional>

namespace tally::top {

const char *const helpText =
    R"(usage: tally-top [--arena=PATH] [--interval=MS] [--once] [--json | --prometheus]

Shows what the processes that share a GPU do: which have work, which wait, how often
best-effort work yields, and how fast. It takes no part in the sharing.

  --arena=PATH     the arena's file, or a folder of arenas; by default $TALLY_ARENA,
                   and without that the user's own in /dev/shm
  --interval=MS    time between two looks, 10 to 3600000 (default 1000)
  --once           one interval, then end
  --json           one line of JSON for each interval
  --prometheus     all counters in Prometheus's text format, then end
  --help, --version
)";

namespace {

/// Returns the part of `argument` behind `name`.
std::optional<std::string_view> valueOf(std::string_view argument, std::string_view name) {
  if (!argument.starts_with(name))
    return std::nullopt;
  return argument.substr(name.size());
}

Result<std::chrono::milliseconds> parseInterval(std::string_view text) {
  std::uint32_t value = 0;
  auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (wrong != std::errc() || end != text.data() + text.size() || value < 10 || value > 3600000)
    return Error{"--interval takes milliseconds, 10 to 3600000, not '" + std::string(text) + "'"};
  return std::chrono::milliseconds(value);
}

Result<void> choose(Options &options, Output output) {
  if (options.output != Output::Table && options.output != output)
    return Error{"--json and --prometheus exclude each other"};
  options.output = output;
  return {};
}

Result<void> parseOne(Options &options, std::string_view argument) {
  if (argument == "--once") {
    options.once = true;
  } else if (argument == "--json") {
    return choose(options, Output::Json);
  } else if (argument == "--prometheus") {
    return choose(options, Output::Prometheus);
  } else if (auto path = valueOf(argument, "--arena=")) {
    if (path->empty())
      return Error{"--arena takes a path"};
    options.arena = *path;
  } else if (auto text = valueOf(argument, "--interval=")) {
    Result<std::chrono::milliseconds> interval = parseInterval(*text);
    if (!interval)
      return interval.error();
    options.interval = *interval;
  } else {
    return Error{"unknown option '" + std::string(argument) + "'; --help lists what there is"};
  }
  return {};
}

} // namespace

Result<Options> parseOptions(std::span<const std::string_view> arguments) {
  Options options;
  for (std::string_view argument : arguments) {
    Options alone;
    alone.help = argument == "--help";
    alone.version = argument == "--version";
    if (alone.help || alone.version)
      return alone;
    if (Result<void> parsed = parseOne(options, argument); !parsed)
      return parsed.error();
  }
  return options;
}

} // namespace tally::top
