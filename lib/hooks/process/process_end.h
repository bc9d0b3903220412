// Functions registered for the end of the process, once each. They act on the process's hooks. A
// test's own hooks are separate and end with the test.
#ifndef TALLY_LIB_HOOKS_PROCESS_PROCESS_END_H
#define TALLY_LIB_HOOKS_PROCESS_PROCESS_END_H

#include <cstdint>

namespace tally::hooks {

class ServedDevice;

// Both run before the CUDA runtime's own end, which was registered earlier: a thread that called
// the CUDA runtime after its end would crash.

/// Ends best-effort work at exit.
void endWorkAtExit();
/// From exit on, no thread joins the arena.
void endJoiningAtExit();

/// On SIGTERM the process waits at most `milliseconds` for the device's work to end. Only where
/// `device` belongs to the process's hooks.
void drainOnTermination(const ServedDevice &device, std::uint32_t milliseconds);

} // namespace tally::hooks

#endif
