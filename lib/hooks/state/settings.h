// The hooks' settings, read once, and lines on standard error.
#ifndef TALLY_LIB_HOOKS_STATE_SETTINGS_H
#define TALLY_LIB_HOOKS_STATE_SETTINGS_H

#include "api/environment.h"

#include <cstdint>
#include <string_view>

namespace tally::hooks {

using runtime::MemoryAmount;
using runtime::SmShare;

struct Settings : runtime::EnvironmentSettings {
  /// The environment holds settings that cannot be followed; the other settings are the defaults.
  /// No call of the CUDA runtime may be made then.
  bool areWrong = false;
  /// The hooks belong to a preloaded library. Only the process has a class: the priorities of
  /// streams do not count.
  bool arePreloaded = false;

  /// Thread-safe. Writes errors in the settings to standard error.
  static const Settings &get();
};

/// Set by a preloaded library (lib/preload) before any settings are read.
inline constinit bool isPreloadedLibrary = false;
/// Whether a preloaded library hooks the process: then a module that is linked with the hooks
/// leaves all calls to that library. False in the preloaded library itself.
bool isLedByPreload();

/// Kinds of warnings. A process writes one line of each kind in its life.
enum class Warning : std::uint8_t {
  Setting,       ///< settings that cannot be followed
  DamagedBundle, ///< a .tally section that cannot be read
  StaleBundle,   ///< device code without a bundle
  Trace,         ///< the trace cannot be written
  NothingHooked, ///< no kernel has variants, or the launches do not go through the hooks
  Unseen,        ///< launches may bypass the hooks
  NoDevice,      ///< the device lacks a feature that best-effort work needs
  OtherDevice,   ///< work on a device that is not served
  Arena,         ///< other processes are not seen
  Termination,   ///< the process ends with work on the device
  Profile,       ///< measurements cannot be read or kept
  Timing,        ///< a measured time that requests have made longer
  Waits,         ///< a stream waits on the device, and nothing progresses
  Fault          ///< a launch failed after its call had returned
};

/// Writes "tally: TEXT" to standard error, unless this kind was written before. Thread-safe.
void warn(Warning kind, std::string_view text);

/// Warns that the process uses a device that is not the served one.
void warnOfOtherDevice(int other, int served);

/// Writes "tally: TEXT" to standard error. Thread-safe; lines of several threads do not mix.
void writeLine(std::string_view text);

} // namespace tally::hooks

#endif
