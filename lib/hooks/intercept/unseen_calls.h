// Finds ways in which driver calls may bypass the hooks unseen, and reacts to them.
#ifndef TALLY_LIB_HOOKS_INTERCEPT_UNSEEN_CALLS_H
#define TALLY_LIB_HOOKS_INTERCEPT_UNSEEN_CALLS_H

#include <cstdint>
#include <optional>
#include <string>

namespace tally::hooks {

/// Why launches may bypass the hooks unseen.
enum class Unseen : std::uint8_t {
  DriverInUse,     ///< the driver was started before the hook was installed
  AllocatedCopies, ///< pointers into the driver lie where the hooks cannot replace them
  NotWritable,     ///< the driver's exports could not be redirected
  NoDriver,        ///< the driver was not there yet
  Namespace,       ///< a library was loaded by dlmopen, and may load a driver of its own
  PrivateTable     ///< a library has a driver table that the hooks do not know
};
/// From now on best-effort work of the process runs as without Tally. The line that reports this
/// ends with `detail`. Thread-safe.
void launchesPassUnseen(Unseen why, const std::string &detail = {});

/// Why calls of a driver that is already loaded may bypass the hooks unseen; nothing if they
/// cannot.
std::optional<Unseen> whyUnseen(void *driver);
/// From now on the hooks notice a library that is loaded into a namespace of its own (dlmopen).
void watchNamespaces();

} // namespace tally::hooks

#endif
