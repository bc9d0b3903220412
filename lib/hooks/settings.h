// What the environment says, read once, and the lines that the hooks write to standard error.
#ifndef TALLY_LIB_HOOKS_SETTINGS_H
#define TALLY_LIB_HOOKS_SETTINGS_H

#include <cstdint>
#include <string_view>

namespace tally::hooks {

/// docs/hooks.md says what each variable means.
struct Settings {
  bool disabled = false;                    ///< TALLY_DISABLE=1
  bool emulator = false;                    ///< TALLY_DEVICE=emulator
  bool bestEffort = false;                  ///< TALLY_CLASS=best-effort
  bool statistics = false;                  ///< TALLY_STATS=1
  bool joinsArena = false;                  ///< other than by TALLY_ARENA=off
  std::uint32_t yieldEveryMicroseconds = 0; ///< TALLY_YIELD_EVERY_US; 0: never

  /// Thread-safe. A value that is not understood is warned about and taken for unset.
  static const Settings &get();
};

/// Kinds of warnings; of each, one line is written in the life of a process.
enum class Warning : std::uint8_t {
  Setting,       ///< an environment variable that is not understood
  DamagedBundle, ///< a .tally section that cannot be read
  StaleBundle,   ///< device code that no bundle belongs to
  NothingHooked, ///< no kernel has variants, or the launches do not come through the hooks
  NoDevice,      ///< what best-effort work needs of the device cannot be had
  Arena,         ///< other processes are not seen
  Fault          ///< a launch failed after its call had returned
};

/// Writes "tally: TEXT" to standard error, unless this kind was written before. Thread-safe.
void warn(Warning kind, std::string_view text);

/// Writes "tally: TEXT" to standard error. Thread-safe; lines of several threads do not mix.
void writeLine(std::string_view text);

} // namespace tally::hooks

#endif
