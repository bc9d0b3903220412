// SIGTERM in a process with best-effort work. By default SIGTERM ends the process even while its
// kernels run. Under MPS the death of a client with kernels in flight may take the server along,
// and with it the other clients. So if the program has left SIGTERM at its default, SIGTERM only
// starts the end of the process: running work yields and ends, and then the process dies by
// SIGTERM.
//
// The handler only posts a semaphore, for which a thread waits. So the handler does nothing that a
// handler may not do, and the interrupted thread, which may hold any lock, goes on. In a child that
// has the handler from its parent (fork, vfork) SIGTERM acts as by default.
#ifndef TALLY_LIB_RUNTIME_API_TERMINATION_H
#define TALLY_LIB_RUNTIME_API_TERMINATION_H

#include <chrono>
#include <functional>
#include <memory>

namespace tally::runtime {

/// A drain for which SIGTERM waits: `drain` runs on its own thread for at most `limit`; `tooLate`
/// is called if it takes longer. With several drains the longest limit holds for all.
struct TerminationDrain {
  std::function<void()> drain;
  std::chrono::milliseconds limit{0};
  std::function<void()> tooLate = [] {};
};

/// Registers a drain. If SIGTERM is at its default at the first call, from then on it runs the
/// drains registered at that moment and ends the process. If SIGTERM is not at its default, or the
/// default would not end the process (PID 1 of a namespace), it stays as it is. The destructor of
/// the returned object removes the drain; it waits for a drain that is under way.
std::shared_ptr<void> drainOnTermination(TerminationDrain drain);

} // namespace tally::runtime

#endif
