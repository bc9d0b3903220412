// What is registered for the end of the process, once each. It is done for the process's hooks: a
// test's are not the process's, and end with the test.
#ifndef TALLY_LIB_HOOKS_PROCESS_PROCESS_END_H
#define TALLY_LIB_HOOKS_PROCESS_PROCESS_END_H

#include <cstdint>

namespace tally::hooks {

class ServedDevice;

// Both run before the CUDA runtime's own end, which was registered earlier: a thread that calls it
// then would crash.

/// Best-effort work ends.
void endWorkAtExit();
/// No thread joins the arena any more.
void endJoiningAtExit();

/// On SIGTERM the process waits at most so long for the device's work to end. Only where the device
/// is that of the process's hooks.
void drainOnTermination(const ServedDevice &device, std::uint32_t milliseconds);

} // namespace tally::hooks

#endif
