// What the environment says, read once, and the lines that the hooks write to standard error.
#ifndef TALLY_LIB_HOOKS_SETTINGS_H
#define TALLY_LIB_HOOKS_SETTINGS_H

#include "tally/runtime/any_policy.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tally::hooks {

/// A part of a device's SMs: a number or percents.
struct SmShare {
  std::uint32_t count = 0, percent = 0; ///< one of them at most is not 0
  /// In SMs; 0: no limit.
  std::uint32_t of(std::uint32_t sms) const {
    return percent == 0 ? std::min(count, sms) : std::max(sms * percent / 100, 1u);
  }
};

/// A part of a device's memory: bytes or percents; none of both: no limit.
struct MemoryAmount {
  std::uint64_t bytes = 0;
  std::uint32_t percent = 0; ///< one of them at most is not 0
  bool isNone() const { return bytes == 0 && percent == 0; }
  /// In bytes; 0 where there is no limit.
  std::uint64_t of(std::uint64_t total) const {
    return percent == 0 ? bytes : std::max<std::uint64_t>(total / 100 * percent, 1);
  }
};

/// docs/hooks.md says what each variable means.
struct Settings {
  bool disabled = false;                    ///< TALLY_DISABLE=1
  bool emulator = false;                    ///< TALLY_DEVICE=emulator
  bool bestEffort = false;                  ///< TALLY_CLASS=best-effort
  bool statistics = false;                  ///< TALLY_STATS=1
  bool joinsArena = false;                  ///< other than by TALLY_ARENA=off
  std::uint32_t yieldEveryMicroseconds = 0; ///< TALLY_YIELD_EVERY_US; 0: never
  std::uint32_t boundMicroseconds = 20;     ///< TALLY_BOUND_US
  std::uint32_t drainMilliseconds = 5000;   ///< TALLY_DRAIN_MS; 0: SIGTERM is left alone
  SmShare wholeSms;                         ///< TALLY_BEST_EFFORT_SMS
  MemoryAmount memoryQuota;                 ///< TALLY_MEMORY_QUOTA; of best-effort processes only
  MemoryAmount memoryReserve;               ///< TALLY_MEMORY_RESERVE; likewise
  runtime::AnyPolicy policy;                ///< TALLY_POLICY
  bool profiles = false;                    ///< TALLY_PROFILE
  std::string trace;                        ///< TALLY_TRACE; empty: none

  /// Thread-safe. A value that is not understood is warned about and taken for unset.
  static const Settings &get();
};

/// Kinds of warnings; of each, one line is written in the life of a process.
enum class Warning : std::uint8_t {
  Setting,       ///< an environment variable that is not understood
  DamagedBundle, ///< a .tally section that cannot be read
  StaleBundle,   ///< device code that no bundle belongs to
  Trace,         ///< what ran when cannot be written
  NothingHooked, ///< no kernel has variants, or the launches do not come through the hooks
  NoDevice,      ///< what best-effort work needs of the device cannot be had
  Arena,         ///< other processes are not seen
  Termination,   ///< the process ends with work on the device
  Profile,       ///< what was measured cannot be read or kept
  Fault          ///< a launch failed after its call had returned
};

/// Writes "tally: TEXT" to standard error, unless this kind was written before. Thread-safe.
void warn(Warning kind, std::string_view text);

/// Writes "tally: TEXT" to standard error. Thread-safe; lines of several threads do not mix.
void writeLine(std::string_view text);

} // namespace tally::hooks

#endif
