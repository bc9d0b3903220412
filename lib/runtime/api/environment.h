// Reads and checks every TALLY_ variable in one place, for the API and for the hooks.
// docs/reference/settings.md has the table; a test compares the two.
#ifndef TALLY_LIB_RUNTIME_API_ENVIRONMENT_H
#define TALLY_LIB_RUNTIME_API_ENVIRONMENT_H

#include "tally/bundle/verdict.h"
#include "tally/runtime/any_policy.h"
#include "tally/support/result.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tally::runtime {

/// A variable, and its allowed values, in words.
struct Variable {
  std::string_view name, allowed;
};

/// All of them, by name.
std::span<const Variable> allVariables();
/// Returns the allowed values of the variable `name`, which must exist.
std::string_view allowedIn(std::string_view name);

/// A part of a device's SMs: a number or percents.
struct SmShare {
  std::uint32_t count = 0, percent = 0; ///< at most one of them is not 0
  /// In SMs; 0: no limit.
  std::uint32_t of(std::uint32_t sms) const {
    return percent == 0 ? std::min(count, sms) : std::max(sms * percent / 100, 1u);
  }
};

/// A part of a device's memory: bytes or percents; neither of them: no limit.
struct MemoryAmount {
  std::uint64_t bytes = 0;
  std::uint32_t percent = 0; ///< at most one of them is not 0
  bool isNone() const { return bytes == 0 && percent == 0; }
  /// Returns bytes; 0 where there is no limit.
  std::uint64_t of(std::uint64_t total) const {
    return percent == 0 ? bytes : std::max<std::uint64_t>(total / 100 * percent, 1);
  }
};

struct EmulatorSettings {
  bool isOn = false;                        ///< TALLY_DEVICE=emulator
  std::uint32_t sms = 0;                    ///< TALLY_EMULATOR_SMS; 0: by the processors
  std::optional<std::array<char, 16>> uuid; ///< TALLY_EMULATOR_UUID
};

struct ArenaSettings {
  bool isJoined = false;   ///< whether a relinked program joins: unless TALLY_ARENA=off
  std::string path, group; ///< TALLY_ARENA, TALLY_ARENA_GROUP; empty: not set
};

struct VariantSettings {
  std::vector<Kind> kinds = {Kind::Persistent, Kind::Guard, Kind::Slice,
                             Kind::Checkpoint}; ///< TALLY_KINDS
  bool areProfiled = false;                     ///< TALLY_PROFILE=on
  std::string folder;                           ///< TALLY_VARIANTS; empty: not set
};

struct PauseSettings {
  std::uint32_t reserve = 25;                ///< TALLY_PAUSE_RESERVE, percent
  std::uint32_t deadlineMicroseconds = 2000; ///< TALLY_PAUSE_DEADLINE_US
};

/// Settings of best-effort processes only.
struct MemorySettings {
  MemoryAmount quota;   ///< TALLY_MEMORY_QUOTA
  MemoryAmount reserve; ///< TALLY_MEMORY_RESERVE
};

struct TraceSettings {
  std::string path;              ///< TALLY_TRACE; empty: none
  std::uint32_t events = 131072; ///< TALLY_TRACE_EVENTS
};

/// docs/reference/settings.md tells the meaning of each field, and which fields the API reads.
struct EnvironmentSettings {
  bool disabled = false; ///< TALLY_DISABLE=1; then no other variable is read
  EmulatorSettings emulator;
  bool bestEffort = false;                   ///< TALLY_CLASS=best-effort
  bool statistics = false;                   ///< TALLY_STATS=1
  bool streamWaits = false;                  ///< TALLY_STREAM_WAITS=on
  bool copyKernels = true;                   ///< TALLY_COPY_KERNELS=on
  std::optional<bool> greenContexts;         ///< TALLY_GREEN_CONTEXTS; none: not under MPS
  bool launchesByDriver = true;              ///< TALLY_LAUNCH=driver
  std::uint32_t yieldEveryMicroseconds = 0;  ///< TALLY_YIELD_EVERY_US; 0: never
  std::uint32_t boundMicroseconds = 20;      ///< TALLY_BOUND_US
  std::uint32_t runAheadMicroseconds = 5000; ///< TALLY_RUN_AHEAD_US; 0: never
  std::uint32_t drainMilliseconds = 5000;    ///< TALLY_DRAIN_MS; 0: SIGTERM is not handled
  SmShare nonPreemptibleSms;                 ///< TALLY_BEST_EFFORT_SMS
  std::uint32_t bestEffortStreams = 1;       ///< TALLY_BEST_EFFORT_STREAMS
  std::uint32_t bestEffortClass = 1;         ///< TALLY_BEST_EFFORT_CLASS
  AnyPolicy policy;                          ///< TALLY_POLICY
  VariantSettings variants;
  PauseSettings pause;
  MemorySettings memory;
  ArenaSettings arena;
  TraceSettings trace;
};

/// Returns kinds of variants from the user's form NAME,NAME,...; `none` is no kind. Nothing where a
/// name is unknown or occurs twice.
std::optional<std::vector<Kind>> kindsFromText(std::string_view text);

/// Reads the variables that begin with TALLY_, and ignores the others. The error names every
/// variable that is unknown, cannot be parsed or contradicts another, and gives the allowed values.
Result<EnvironmentSettings>
readEnvironment(const std::map<std::string, std::string, std::less<>> &variables);
/// The process's.
Result<EnvironmentSettings> readEnvironment();

} // namespace tally::runtime

#endif
