#include "state/settings.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace tally::hooks {

namespace {

/// Whether kernels are loaded at their first use. Such a load holds the driver's lock and waits for
/// an idle device. While work pauses or a stream waits the device is not idle, and a call that
/// waits for the lock cannot let them go on. A preloaded library leaves the driver's default, which
/// is lazy.
bool isLoadingLazy() {
  const char *given = std::getenv("CUDA_MODULE_LOADING");
  std::string_view loading = given ? given : "";
  return loading == "LAZY" || (isPreloadedLibrary && loading != "EAGER");
}

Settings read() {
  Settings settings;
  Result<runtime::EnvironmentSettings> environment = runtime::readEnvironment();
  std::string wrong;
  if (!environment)
    wrong = environment.error().message;
  else
    static_cast<runtime::EnvironmentSettings &>(settings) = *environment;
  settings.streamWaits = settings.streamWaits && !isLoadingLazy();
  settings.arePreloaded = isPreloadedLibrary;
  if (settings.arePreloaded && settings.emulator.isOn)
    wrong = "TALLY_DEVICE=emulator is for programs that are linked with tally, not for `tally run`";
  if (contains(settings.variants.kinds, Kind::Pause) && isLoadingLazy())
    wrong = "TALLY_KINDS has pause, which CUDA_MODULE_LOADING=LAZY, the driver's default, may keep "
            "from going on";
  settings.disabled = settings.disabled || isLedByPreload();
  if (wrong.empty())
    return settings;
  settings.areWrong = true;
  warn(Warning::Setting, wrong + ". Until that is put right every call of CUDA fails "
                                 "(TALLY_DISABLE=1 leaves tally out)");
  return settings;
}

} // namespace

bool isLedByPreload() {
  if (isPreloadedLibrary)
    return false;
  auto isActive = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "tally_preload_is_active"));
  return isActive && isActive() != 0;
}

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
           ", which alone is served. On others best-effort kernels are non-preemptible, and "
           "nobody yields to high-priority work");
}

void writeLine(std::string_view text) {
  std::string line = "tally: " + std::string(text) + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

} // namespace tally::hooks
