// Where calls of the driver's may pass the hooks unseen, and what follows from that.
#ifndef TALLY_LIB_HOOKS_INTERCEPT_UNSEEN_CALLS_H
#define TALLY_LIB_HOOKS_INTERCEPT_UNSEEN_CALLS_H

#include <cstdint>
#include <optional>
#include <string>

namespace tally::hooks {

/// Why launches may pass unseen.
enum class Unseen : std::uint8_t {
  DriverInUse,     ///< the driver was started before the hook was there
  AllocatedCopies, ///< pointers into the driver lie where they cannot be replaced
  NotWritable,     ///< the driver's exports could not be led elsewhere
  NoDriver,        ///< there was none yet
  Namespace,       ///< a library was loaded by dlmopen, and may load a driver of its own
  PrivateTable     ///< a library has a table of the driver's that is not known
};
/// From now on best-effort work of the process runs as it would without tally. The line that says
/// so ends with `detail`. Thread-safe.
void launchesPassUnseen(Unseen why, const std::string &detail = {});

/// Of a driver that was loaded before now: why calls of it may pass unseen, if they may.
std::optional<Unseen> whyUnseen(void *driver);
/// From now on a library that is loaded into a namespace of its own (dlmopen) is noticed.
void watchNamespaces();

} // namespace tally::hooks

#endif
