#include "settings.h"

#include <atomic>
#include <cstdio>
#include <string>

namespace tally::hooks {

namespace {

Settings read() {
  Settings settings;
  Result<runtime::EnvironmentSettings> environment = runtime::readEnvironment();
  if (environment) {
    static_cast<runtime::EnvironmentSettings &>(settings) = *environment;
    return settings;
  }
  settings.areWrong = true;
  warn(Warning::Setting, environment.error().message +
                             ". Until that is put right every call of the CUDA runtime fails "
                             "(TALLY_DISABLE=1 leaves tally out)");
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

void warnOfOtherDevice(int other, int served) {
  static std::atomic<bool> isSaid{false};
  if (isSaid.load(std::memory_order_relaxed) || isSaid.exchange(true))
    return;
  auto number = [](int device) { return "device " + std::to_string(device); };
  warn(Warning::OtherDevice,
       number(other) + " is passed through: this process's first work was on " + number(served) +
           ", which alone is served. On others best-effort kernels run whole and do not yield, and "
           "nobody yields to high-priority work");
}

void writeLine(std::string_view text) {
  std::string line = "tally: " + std::string(text) + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

} // namespace tally::hooks
