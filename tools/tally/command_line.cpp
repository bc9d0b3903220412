#include "command_line.h"

#include <charconv>
#include <utility>

namespace tally::launcher {

namespace {

const char *const helpText =
    R"(usage: tally run [OPTION...] [--] COMMAND...     start a program that shares the GPU
       tally status [--arena PLACE] [--json]     what the processes that share a GPU do
       tally doctor [--json] [[--] COMMAND...]   what is right here, and what is not
       tally advise [--over US] TRACE...         what held requests up, and what would help

`tally run --help` lists the options of `tally run`, and so on.

  --help, --version
)";

const char *const runHelpText =
    R"(usage: tally run [OPTION...] [--] COMMAND...

Starts COMMAND with Tally preloaded into it and into the programs that it starts. The
command takes the launcher's place: process, exit status, signals and standard streams
are the command's. Where there is no driver of a GPU, it runs without Tally.

  --best-effort[=CLASS]  make way for high-priority work; CLASS 1 (the highest) to 4.
                         Without it: $TALLY_CLASS, and without that high priority
  --arena PLACE          where processes of a GPU meet: a file, a folder, or off
  --policy POLICY        when best-effort work may run: NAME or NAME:KEY=VALUE,...
  --stats                a line on standard error when a process ends
  --trace FILE           write who ran when
  --help

Each option sets a variable of the command's environment. Other settings are given as
variables: TALLY_BOUND_US=50 tally run COMMAND.

Exit status: 125 where the launcher itself fails, 126 where COMMAND cannot be executed,
127 where there is no such COMMAND; else the command's.
)";

const char *const statusHelpText = R"(usage: tally status [--arena PLACE] [--json]

Shows for one second what the processes that share a GPU do, as `tally-top --once` does.

  --arena PLACE  the arena's file, or a folder of arenas; by default $TALLY_ARENA, and
                 without that the user's own in /dev/shm
  --json         one line of JSON
  --help
)";

const char *const doctorHelpText = R"(usage: tally doctor [--json] [[--] COMMAND...]

Looks at what Tally needs on this machine, and at COMMAND, which is not started. A line
for each thing begins with ok, note or bad; behind a note or a fault a line says what
mends it. Exit status: 1 where something is bad.

  --json         one line of JSON
  --help
)";

const char *const adviseHelpText = R"(usage: tally advise [--over US] TRACE...

Says of each trace of best-effort work (`tally run --best-effort --trace FILE`) what ran
when requests came and for how long it held them up, the longest first, and what would
make it yield sooner.

  --over US      leave out what took no more microseconds than this; 100
  --help
)";

/// Reads the words of a command line from the first to the last.
class Words {
public:
  explicit Words(std::span<const std::string_view> words) : left(words) {}
  bool empty() const { return left.empty(); }
  std::string_view front() const { return left.front(); }
  std::string_view take() {
    std::string_view word = left.front();
    left = left.subspan(1);
    return word;
  }
  /// Returns the remaining words as a command, without the dashes in front of it.
  std::vector<std::string> takeCommand() {
    if (!empty() && front() == "--")
      take();
    return {left.begin(), left.end()};
  }
  /// Whether the next word is an option rather than a command's first word.
  bool atOption() const { return !empty() && front().starts_with('-') && front() != "--"; }

private:
  std::span<const std::string_view> left;
};

Error unknownOption(std::string_view option, const char *command) {
  return Error{"unknown option '" + std::string(option) + "'; 'tally " + command +
               " --help' lists what there is"};
}

/// Returns the value of `option` if `word`, taken from `words`, is the option: --name=VALUE, or
/// --name with the value in the next word. Nullopt for another word.
Result<std::optional<std::string>> valueOf(std::string_view option, std::string_view word,
                                           Words &words, const char *takes) {
  std::optional<std::string> value;
  if (word == option)
    value = words.empty() ? std::string() : std::string(words.take());
  else if (word.starts_with(option) && word[option.size()] == '=')
    value = word.substr(option.size() + 1);
  if (value && value->empty())
    return Error{std::string(option) + " takes " + takes};
  return value;
}

/// An option with a value, and the place of the value.
struct Valued {
  const char *name, *takes;
  std::optional<std::string> &place;
};

/// Takes the value if `word` is one of `options`. Returns whether it is.
Result<bool> takeValue(std::span<const Valued> options, std::string_view word, Words &words) {
  for (const Valued &option : options) {
    Result<std::optional<std::string>> value = valueOf(option.name, word, words, option.takes);
    if (!value)
      return value.error();
    if (*value) {
      option.place = std::move(**value);
      return true;
    }
  }
  return false;
}

Result<Request> parseRun(Words words) {
  RunOptions options;
  const Valued valued[] = {{"--arena", "a file, a folder, or off", options.arena},
                           {"--policy", "NAME or NAME:KEY=VALUE,...", options.policy},
                           {"--trace", "a file", options.trace}};
  while (words.atOption()) {
    std::string_view word = words.take();
    constexpr std::string_view classOption = "--best-effort=";
    if (word == "--help")
      return Request(Text{runHelpText});
    if (word == "--stats") {
      options.statistics = true;
    } else if (word == "--best-effort") {
      options.bestEffort = true;
    } else if (word.starts_with(classOption)) {
      options.bestEffort = true;
      options.bestEffortClass = word.substr(classOption.size());
      if (options.bestEffortClass.empty())
        return Error{"--best-effort= takes a class, 1 to 4"};
    } else {
      Result<bool> taken = takeValue(valued, word, words);
      if (!taken)
        return taken.error();
      if (!*taken)
        return unknownOption(word, "run");
    }
  }
  options.command = words.takeCommand();
  if (options.command.empty())
    return Error{"'tally run' takes a command; 'tally run --help' says more"};
  return Request(std::move(options));
}

Result<Request> parseStatus(Words words) {
  top::Options options;
  options.once = true;
  std::optional<std::string> arena;
  const Valued valued[] = {{"--arena", "a path", arena}};
  while (!words.empty()) {
    std::string_view word = words.take();
    if (word == "--help")
      return Request(Text{statusHelpText});
    if (word == "--json") {
      options.output = top::Output::Json;
      continue;
    }
    Result<bool> taken = takeValue(valued, word, words);
    if (!taken)
      return taken.error();
    if (!*taken)
      return unknownOption(word, "status");
  }
  options.arena = arena.value_or("");
  return Request(std::move(options));
}

Result<Request> parseDoctor(Words words) {
  DoctorOptions options;
  while (words.atOption()) {
    std::string_view word = words.take();
    if (word == "--help")
      return Request(Text{doctorHelpText});
    if (word != "--json")
      return unknownOption(word, "doctor");
    options.json = true;
  }
  options.command = words.takeCommand();
  return Request(std::move(options));
}

Result<Request> parseAdvise(Words words) {
  AdviseOptions options;
  std::optional<std::string> over;
  const Valued valued[] = {{"--over", "microseconds", over}};
  while (words.atOption()) {
    std::string_view word = words.take();
    if (word == "--help")
      return Request(Text{adviseHelpText});
    Result<bool> taken = takeValue(valued, word, words);
    if (!taken)
      return taken.error();
    if (!*taken)
      return unknownOption(word, "advise");
  }
  if (over) {
    const char *end = over->data() + over->size();
    auto [at, error] = std::from_chars(over->data(), end, options.over);
    if (error != std::errc() || at != end || !(options.over >= 0))
      return Error{"--over takes microseconds, not '" + *over + "'"};
  }
  options.traces = words.takeCommand();
  if (options.traces.empty())
    return Error{"'tally advise' takes traces; 'tally advise --help' says more"};
  return Request(std::move(options));
}

} // namespace

Result<Request> parseCommandLine(std::span<const std::string_view> arguments) {
  Words words(arguments);
  if (words.empty())
    return Error{"run, status, doctor or advise? 'tally --help' says more"};
  std::string_view first = words.take();
  if (first == "run")
    return parseRun(words);
  if (first == "status")
    return parseStatus(words);
  if (first == "doctor")
    return parseDoctor(words);
  if (first == "advise")
    return parseAdvise(words);
  if (first == "--help")
    return Request(Text{helpText});
  if (first == "--version")
    return Request(Text{"tally " TALLY_VERSION "\n"});
  return Error{"unknown word '" + std::string(first) + "'; 'tally --help' lists what there is"};
}

} // namespace tally::launcher
