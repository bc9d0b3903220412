#include "settings.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
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
  std::string every(variable("TALLY_YIELD_EVERY_US"));
  if (every.empty())
    return settings;
  char *end = nullptr;
  unsigned long value = std::strtoul(every.c_str(), &end, 10);
  if (*end != '\0' || value > 1000000000)
    warn(Warning::Setting, "TALLY_YIELD_EVERY_US=" + every + " is no number of microseconds");
  else
    settings.yieldEveryMicroseconds = static_cast<std::uint32_t>(value);
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
