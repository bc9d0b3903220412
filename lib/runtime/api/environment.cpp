#include "api/environment.h"

#include "trace/trace.h"

#include "tally/runtime/policy_text.h"

#include <charconv>
#include <utility>
#include <vector>

#include <unistd.h>

namespace tally::runtime {

namespace {

constexpr std::string_view memoryValues = "bytes, with K, M, G or T behind them, or 1% to 100%";

constexpr std::array<Variable, 31> table = {{
    {"TALLY_ARENA", "a file, a folder, or off"},
    {"TALLY_ARENA_GROUP", "a group's name or number"},
    {"TALLY_BEST_EFFORT_CLASS", "1 to 4"},
    {"TALLY_BEST_EFFORT_SMS", "1 to 65535, or 1% to 100%"},
    {"TALLY_BEST_EFFORT_STREAMS", "1 to 4"},
    {"TALLY_BOUND_US", "1 to 1000000"},
    {"TALLY_CLASS", "high or best-effort"},
    {"TALLY_COPY_KERNELS", "on or off"},
    {"TALLY_DEVICE", "cuda or emulator"},
    {"TALLY_DISABLE", "0 or 1"},
    {"TALLY_DRAIN_MS", "0 to 600000"},
    {"TALLY_EMULATOR_SMS", "1 to 256"},
    {"TALLY_EMULATOR_UUID", "32 hexadecimal digits, with or without dashes"},
    {"TALLY_GREEN_CONTEXTS", "on or off"},
    {"TALLY_KINDS", "kinds of variants, or none: slice, guard, persistent, pause, checkpoint"},
    {"TALLY_LAUNCH", "driver or runtime"},
    {"TALLY_MEMORY_QUOTA", memoryValues},
    {"TALLY_MEMORY_RESERVE", memoryValues},
    {"TALLY_PAUSE_DEADLINE_US", "10 to 10000000"},
    {"TALLY_PAUSE_RESERVE", "0 to 90"},
    {"TALLY_POLICY", "NAME or NAME:KEY=VALUE,..."},
    {"TALLY_PRELOAD_LIBRARY", "a file"},
    {"TALLY_PROFILE", "on or off"},
    {"TALLY_PTXAS", "a file"},
    {"TALLY_RUN_AHEAD_US", "0 to 1000000"},
    {"TALLY_STATS", "0 or 1"},
    {"TALLY_STREAM_WAITS", "on or off"},
    {"TALLY_TRACE", "a file"},
    {"TALLY_TRACE_EVENTS", "16 to 16777216"},
    {"TALLY_VARIANTS", "a folder, or off"},
    {"TALLY_YIELD_EVERY_US", "0 to 1000000000"},
}};

/// Number of letters to insert, remove or change.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j < row.size(); ++j)
    row[j] = j;
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      std::size_t changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

/// Returns the digits of `text` as a number; nothing where it is no number, or out of range.
template <class Number>
std::optional<Number> parse(std::string_view text, Number least, Number most) {
  Number value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most)
    return std::nullopt;
  return value;
}

std::optional<SmShare> parseShare(std::string_view text) {
  bool percents = text.ends_with('%');
  auto value = parse<std::uint32_t>(percents ? text.substr(0, text.size() - 1) : text, 1,
                                    percents ? 100 : 65535);
  if (!value)
    return std::nullopt;
  return percents ? SmShare{0, *value} : SmShare{*value, 0};
}

/// Units are of 1024.
std::optional<MemoryAmount> parseMemory(std::string_view text) {
  bool percents = text.back() == '%';
  std::size_t unit = std::string_view("KMGT").find(text.back());
  bool hasUnit = unit != std::string_view::npos;
  std::uint64_t factor = std::uint64_t{1} << (hasUnit ? 10 * (unit + 1) : 0);
  constexpr std::uint64_t mostBytes = std::uint64_t{1} << 50;
  auto value = parse<std::uint64_t>(text.substr(0, text.size() - (percents || hasUnit ? 1 : 0)), 1,
                                    percents ? 100 : mostBytes / factor);
  if (!value)
    return std::nullopt;
  return percents ? MemoryAmount{0, static_cast<std::uint32_t>(*value)}
                  : MemoryAmount{*value * factor, 0};
}

std::optional<std::array<char, 16>> parseUuid(std::string_view text) {
  std::string digits(text);
  std::erase(digits, '-');
  std::array<char, 16> bytes{};
  if (digits.size() != 2 * bytes.size())
    return std::nullopt;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    unsigned byte = 0;
    const char *at = digits.data() + 2 * i;
    if (std::from_chars(at, at + 2, byte, 16).ptr != at + 2)
      return std::nullopt;
    bytes[i] = static_cast<char>(byte);
  }
  return bytes;
}

class Reader {
public:
  explicit Reader(const std::map<std::string, std::string, std::less<>> &variables)
      : variables(variables) {}

  std::string_view text(std::string_view name) const {
    auto found = variables.find(name);
    return found == variables.end() ? std::string_view() : std::string_view(found->second);
  }
  bool isSet(std::string_view name) const { return !text(name).empty(); }

  /// `parse` returns an optional of the text's value. An empty variable counts as an unset one, and
  /// leaves `value` as it is.
  template <class Parse, class Value>
  void read(std::string_view name, Value &value, const Parse &parse) {
    if (!isSet(name))
      return;
    if (auto parsed = parse(text(name)))
      value = *parsed;
    else
      complain(std::string(name) + "=" + std::string(text(name)) + ": allowed are " +
               std::string(allowedIn(name)));
  }
  void readNumber(std::string_view name, std::uint32_t &value, std::uint32_t least,
                  std::uint32_t most) {
    read(name, value,
         [&](std::string_view given) { return parse<std::uint32_t>(given, least, most); });
  }
  /// Sets `value` to true for the text `yes`, and to false for `no`.
  template <class Value> // bool, or an optional one
  void readChoice(std::string_view name, Value &value, std::string_view yes, std::string_view no) {
    read(name, value, [&](std::string_view given) {
      return given == yes ? std::optional(true) : given == no ? std::optional(false) : std::nullopt;
    });
  }
  /// Reports a variable that is set although other settings make it meaningless.
  void contradict(std::string_view name, bool isMeaningless, std::string_view reason) {
    if (isSet(name) && isMeaningless)
      complain(std::string(name) + " " + std::string(reason));
  }
  void complain(const std::string &what) { wrong += (wrong.empty() ? "" : "; ") + what; }

  void findUnknown();
  void readAll(EnvironmentSettings &settings);
  void findContradictions(const EnvironmentSettings &settings);
  std::string wrong;

private:
  const std::map<std::string, std::string, std::less<>> &variables;
};

void Reader::findUnknown() {
  for (const auto &[name, value] : variables) {
    if (!name.starts_with("TALLY_"))
      continue;
    auto by = [&name = name](const Variable &a, const Variable &b) {
      return distance(name, a.name) < distance(name, b.name);
    };
    std::string_view nearest = std::min_element(table.begin(), table.end(), by)->name;
    if (nearest == name)
      continue;
    std::string known;
    if (distance(name, nearest) <= 3)
      known = "(did you mean " + std::string(nearest) + "?)";
    else
      for (const Variable &each : table)
        known += (known.empty() ? "(there are " : ", ") + std::string(each.name);
    known += known.ends_with(')') ? "" : ")";
    complain(name + " is no setting of tally's " + known);
  }
}

void Reader::readAll(EnvironmentSettings &settings) {
  readChoice("TALLY_DEVICE", settings.emulator.isOn, "emulator", "cuda");
  readChoice("TALLY_CLASS", settings.bestEffort, "best-effort", "high");
  readChoice("TALLY_STATS", settings.statistics, "1", "0");
  settings.streamWaits =
      settings.emulator.isOn; // on a GPU a waiting stream delays others' launches
  readChoice("TALLY_STREAM_WAITS", settings.streamWaits, "on", "off");
  readChoice("TALLY_COPY_KERNELS", settings.copyKernels, "on", "off");
  if (isSet("TALLY_GREEN_CONTEXTS"))
    readChoice("TALLY_GREEN_CONTEXTS", settings.greenContexts.emplace(), "on", "off");
  readChoice("TALLY_LAUNCH", settings.launchesByDriver, "driver", "runtime");
  readChoice("TALLY_PROFILE", settings.variants.areProfiled, "on", "off");
  readNumber("TALLY_YIELD_EVERY_US", settings.yieldEveryMicroseconds, 0, 1000000000);
  if (settings.yieldEveryMicroseconds != 0)
    settings.runAheadMicroseconds = 0; // by default: work that runs ahead does not yield
  readNumber("TALLY_RUN_AHEAD_US", settings.runAheadMicroseconds, 0, 1000000);
  readNumber("TALLY_BOUND_US", settings.boundMicroseconds, 1, 1000000);
  readNumber("TALLY_BEST_EFFORT_CLASS", settings.bestEffortClass, 1, lowestBestEffortClass);
  readNumber("TALLY_BEST_EFFORT_STREAMS", settings.bestEffortStreams, 1, 4);
  readNumber("TALLY_PAUSE_DEADLINE_US", settings.pause.deadlineMicroseconds, 10, 10000000);
  readNumber("TALLY_PAUSE_RESERVE", settings.pause.reserve, 0, 90);
  readNumber("TALLY_DRAIN_MS", settings.drainMilliseconds, 0, 600000);
  readNumber("TALLY_TRACE_EVENTS", settings.trace.events, Trace::leastCapacity,
             Trace::mostCapacity);
  readNumber("TALLY_EMULATOR_SMS", settings.emulator.sms, 1, 256);
  read("TALLY_EMULATOR_UUID", settings.emulator.uuid, parseUuid);
  read("TALLY_BEST_EFFORT_SMS", settings.nonPreemptibleSms, parseShare);
  read("TALLY_KINDS", settings.variants.kinds, kindsFromText);
  read("TALLY_MEMORY_QUOTA", settings.memory.quota, parseMemory);
  read("TALLY_MEMORY_RESERVE", settings.memory.reserve, parseMemory);
  settings.arena.path = text("TALLY_ARENA");
  settings.arena.group = text("TALLY_ARENA_GROUP");
  settings.trace.path = text("TALLY_TRACE");
  settings.variants.folder = text("TALLY_VARIANTS");
  // An emulator belongs to its own process, unless a variable says that others share it.
  bool isShared = !settings.emulator.isOn || isSet("TALLY_EMULATOR_UUID") || isSet("TALLY_ARENA");
  settings.arena.isJoined = isShared && settings.arena.path != "off";
  Result<AnyPolicy> policy = policyFromText(text("TALLY_POLICY"));
  if (policy)
    settings.policy = *policy;
  else
    complain("TALLY_POLICY=" + std::string(text("TALLY_POLICY")) + ": " + policy.error().message);
}

void Reader::findContradictions(const EnvironmentSettings &settings) {
  for (std::string_view name : {"TALLY_MEMORY_QUOTA", "TALLY_MEMORY_RESERVE"})
    contradict(name, !settings.bestEffort, "counts with TALLY_CLASS=best-effort only");
  for (std::string_view name : {"TALLY_EMULATOR_SMS", "TALLY_EMULATOR_UUID"})
    contradict(name, !settings.emulator.isOn, "counts with TALLY_DEVICE=emulator only");
  for (std::string_view name : {"TALLY_ARENA_GROUP", "TALLY_BEST_EFFORT_CLASS"})
    contradict(name, settings.arena.path == "off", "means nothing with TALLY_ARENA=off");
  contradict("TALLY_TRACE_EVENTS", settings.trace.path.empty(),
             "means nothing without TALLY_TRACE");
  for (std::string_view name : {"TALLY_PAUSE_DEADLINE_US", "TALLY_PAUSE_RESERVE"})
    contradict(name, !contains(settings.variants.kinds, Kind::Pause),
               "means nothing without pause in TALLY_KINDS");
  contradict("TALLY_BEST_EFFORT_SMS", settings.emulator.isOn,
             "means nothing with TALLY_DEVICE=emulator, which has no SMs to divide");
  contradict("TALLY_POLICY", settings.policy.usesClients(),
             "is for several best-effort clients; a process of a relinked program is one");
}

} // namespace

std::optional<std::vector<Kind>> kindsFromText(std::string_view text) {
  std::vector<Kind> kinds;
  if (text == "none")
    return kinds;
  for (;;) {
    std::size_t comma = text.find(',');
    auto kind = kindFromName(text.substr(0, comma));
    if (!kind || contains(kinds, *kind))
      return std::nullopt;
    kinds.push_back(*kind);
    if (comma == std::string_view::npos)
      return kinds;
    text.remove_prefix(comma + 1);
  }
}

std::span<const Variable> allVariables() { return table; }

std::string_view allowedIn(std::string_view name) {
  auto found = std::find_if(table.begin(), table.end(),
                            [&](const Variable &each) { return each.name == name; });
  assert(found != table.end() && "there is no such variable");
  return found->allowed;
}

Result<EnvironmentSettings>
readEnvironment(const std::map<std::string, std::string, std::less<>> &variables) {
  Reader reader(variables);
  EnvironmentSettings settings;
  reader.readChoice("TALLY_DISABLE", settings.disabled, "1", "0");
  if (settings.disabled)
    return settings;
  reader.findUnknown();
  reader.readAll(settings);
  reader.findContradictions(settings);
  if (!reader.wrong.empty())
    return Error{reader.wrong};
  return settings;
}

Result<EnvironmentSettings> readEnvironment() {
  std::map<std::string, std::string, std::less<>> variables;
  for (char **each = environ; each && *each; ++each) {
    std::string_view entry = *each;
    std::size_t equals = entry.find('=');
    if (entry.starts_with("TALLY_") && equals != std::string_view::npos)
      variables.emplace(entry.substr(0, equals), entry.substr(equals + 1));
  }
  return readEnvironment(variables);
}

} // namespace tally::runtime
