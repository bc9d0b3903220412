#include "settings.h"

#include "tally/runtime/policy_text.h"

#include <atomic>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

namespace tally::hooks {

namespace {

std::string_view variable(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

bool isSet(const char *name) {
  std::string_view value = variable(name);
  return !value.empty() && value != "0";
}

/// Whether `name` holds `value`; anything else but nothing and `other` is warned about.
bool isChosen(const char *name, std::string_view value, std::string_view other) {
  std::string_view text = variable(name);
  if (!text.empty() && text != value && text != other)
    warn(Warning::Setting, std::string(name) + "=" + std::string(text) + " is not understood: '" +
                               std::string(value) + "' or '" + std::string(other) +
                               "'; taken for '" + std::string(other) + "'");
  return text == value;
}

/// The digits of `text` as a number; nothing where it is none, or outside of the range.
template <class Number = std::uint32_t>
std::optional<Number> parse(std::string_view text, Number least, Number most) {
  Number value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most)
    return std::nullopt;
  return value;
}

/// What `name` holds; `otherwise` where it is not set or, with a warning, not understood.
std::uint32_t number(const char *name, std::uint32_t least, std::uint32_t most,
                     std::uint32_t otherwise, const char *unit) {
  std::string_view text = variable(name);
  if (text.empty())
    return otherwise;
  std::optional<std::uint32_t> value = parse(text, least, most);
  if (!value)
    warn(Warning::Setting, std::string(name) + "=" + std::string(text) + " is no number of " +
                               unit + " from " + std::to_string(least) + " to " +
                               std::to_string(most) + "; taken for " + std::to_string(otherwise));
  return value.value_or(otherwise);
}

runtime::AnyPolicy policy(const char *name) {
  Result<runtime::AnyPolicy> known = runtime::policyFromText(variable(name));
  std::string wrong;
  if (!known)
    wrong = known.error().message;
  else if (known->usesClients())
    wrong = "a process is one best-effort client, so there is nothing to share out";
  if (wrong.empty())
    return *known;
  warn(Warning::Setting, std::string(name) + "=" + std::string(variable(name)) + ": " + wrong +
                             "; taken for priority");
  return {};
}

SmShare smShare(const char *name) {
  std::string_view text = variable(name);
  if (text.empty())
    return {};
  bool percents = text.ends_with('%');
  std::optional<std::uint32_t> value =
      parse(percents ? text.substr(0, text.size() - 1) : text, 1u, percents ? 100u : 65535u);
  if (!value)
    warn(Warning::Setting, std::string(name) + "=" + std::string(text) +
                               " is neither a number of SMs nor 1% to 100%; taken for all");
  return percents ? SmShare{0, value.value_or(0)} : SmShare{value.value_or(0), 0};
}

/// Bytes with K, M, G or T behind them (of 1024), or percents; of best-effort processes only.
MemoryAmount memoryAmount(const char *name, bool bestEffort) {
  std::string_view text = variable(name), digits = text;
  if (text.empty())
    return {};
  bool percents = text.back() == '%';
  std::size_t unit = std::string_view("KMGT").find(text.back());
  bool hasUnit = unit != std::string_view::npos;
  if (percents || hasUnit)
    digits.remove_suffix(1);
  std::uint64_t factor = std::uint64_t{1} << (hasUnit ? 10 * (unit + 1) : 0);
  constexpr std::uint64_t mostBytes = std::uint64_t{1} << 50;
  auto value = parse<std::uint64_t>(digits, 1, percents ? 100 : mostBytes / factor);
  if (!value)
    warn(Warning::Setting, std::string(name) + "=" + std::string(text) +
                               " is neither bytes (with K, M, G or T behind them) nor 1% to 100%; "
                               "there is no limit");
  else if (!bestEffort)
    warn(Warning::Setting,
         std::string(name) + " counts with TALLY_CLASS=best-effort only; there is no limit");
  if (!value || !bestEffort)
    return {};
  return percents ? MemoryAmount{0, static_cast<std::uint32_t>(*value)}
                  : MemoryAmount{*value * factor, 0};
}

Settings read() {
  Settings settings;
  settings.disabled = isSet("TALLY_DISABLE");
  settings.emulator = isChosen("TALLY_DEVICE", "emulator", "cuda");
  settings.bestEffort = isChosen("TALLY_CLASS", "best-effort", "high");
  settings.statistics = isSet("TALLY_STATS");
  // An emulator is its process's own, but where it is said to be another's too.
  bool isShared = !settings.emulator || !variable("TALLY_EMULATOR_UUID").empty() ||
                  !variable("TALLY_ARENA").empty();
  settings.joinsArena = isShared && variable("TALLY_ARENA") != "off";
  settings.yieldEveryMicroseconds =
      number("TALLY_YIELD_EVERY_US", 0, 1000000000, 0, "microseconds");
  settings.boundMicroseconds =
      number("TALLY_BOUND_US", 1, 1000000, settings.boundMicroseconds, "microseconds");
  settings.drainMilliseconds =
      number("TALLY_DRAIN_MS", 0, 600000, settings.drainMilliseconds, "milliseconds");
  settings.wholeSms = smShare("TALLY_BEST_EFFORT_SMS");
  settings.memoryQuota = memoryAmount("TALLY_MEMORY_QUOTA", settings.bestEffort);
  settings.memoryReserve = memoryAmount("TALLY_MEMORY_RESERVE", settings.bestEffort);
  settings.policy = policy("TALLY_POLICY");
  settings.profiles = isChosen("TALLY_PROFILE", "on", "off");
  settings.trace = variable("TALLY_TRACE");
  return settings;
}

} // namespace

const Settings &Settings::get() {
  static const Settings settings = read();
  return settings;
}

void warn(Warning kind, std::string_view text) {
  static std::atomic<std::uint32_t> written{0};
  std::uint32_t bit = 1u << static_cast<unsigned>(kind);
  if ((written.fetch_or(bit) & bit) != 0)
    return;
  writeLine(text);
}

void writeLine(std::string_view text) {
  std::string line = "tally: " + std::string(text) + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

} // namespace tally::hooks
