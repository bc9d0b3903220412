// The hooks' settings, read once, and the lines that they write to standard error.
#ifndef TALLY_LIB_HOOKS_STATE_SETTINGS_H
#define TALLY_LIB_HOOKS_STATE_SETTINGS_H

#include "api/environment.h"

#include <cstdint>
#include <string_view>

namespace tally::hooks {

using runtime::MemoryAmount;
using runtime::SmShare;

struct Settings : runtime::EnvironmentSettings {
  /// The environment's cannot be followed; the others are the defaults. No call of the CUDA runtime
  /// may be made then.
  bool areWrong = false;
  /// The hooks are a preloaded library's. Class is by the process alone: a stream's priority says
  /// nothing of it.
  bool arePreloaded = false;

  /// Thread-safe. What is wrong is written to standard error.
  static const Settings &get();
};

/// Set by a preloaded library (lib/preload) before any settings are read.
inline constinit bool isPreloadedLibrary = false;
/// Whether a preloaded library hooks the process: then a module that is linked with the hooks
/// leaves all to it. False in that library itself.
bool isLedByPreload();

/// Kinds of warnings; of each, one line is written in the life of a process.
enum class Warning : std::uint8_t {
  Setting,       ///< settings that cannot be followed
  DamagedBundle, ///< a .tally section that cannot be read
  StaleBundle,   ///< device code that no bundle belongs to
  Trace,         ///< what ran when cannot be written
  NothingHooked, ///< no kernel has variants, or the launches do not come through the hooks
  Unseen,        ///< launches may pass the hooks
  NoDevice,      ///< what best-effort work needs of the device cannot be had
  OtherDevice,   ///< work on a device that is not served
  Arena,         ///< other processes are not seen
  Termination,   ///< the process ends with work on the device
  Profile,       ///< what was measured cannot be read or kept
  Timing,        ///< a time that requests have made longer
  Waits,         ///< a stream waits on the device, and nothing moves
  Fault          ///< a launch failed after its call had returned
};

/// Writes "tally: TEXT" to standard error, unless this kind was written before. Thread-safe.
void warn(Warning kind, std::string_view text);

/// Says that a device that the process uses is not the one that is served.
void warnOfOtherDevice(int other, int served);

/// Writes "tally: TEXT" to standard error. Thread-safe; lines of several threads do not mix.
void writeLine(std::string_view text);

} // namespace tally::hooks

#endif
