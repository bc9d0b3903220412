// SIGTERM in a process with best-effort work. By default it ends the process wherever its kernels
// are; under MPS the death of a client with kernels in flight may take the server, and with it the
// other clients, along. So where the program has left SIGTERM alone, it only starts the process's
// end: what runs yields and ends, and then the process dies by SIGTERM as it would have.
//
// The handler posts a semaphore, which a thread waits for; so nothing is done in the handler that a
// handler may not do, and the interrupted thread, which may hold any lock, goes on. In a child that
// has the handler from its parent (fork, vfork) SIGTERM does what it does by default.
#ifndef TALLY_LIB_RUNTIME_API_TERMINATION_H
#define TALLY_LIB_RUNTIME_API_TERMINATION_H

#include <chrono>
#include <functional>
#include <memory>

namespace tally::runtime {

/// What SIGTERM waits for: `drain`, on a thread of its own, for at most `limit`; `tooLate` is
/// called where that was not enough. With several the longest limit holds for all.
struct TerminationDrain {
  std::function<void()> drain;
  std::chrono::milliseconds limit{0};
  std::function<void()> tooLate = [] {};
};

/// Where SIGTERM is at its default: from the first of these on it calls what is registered then and
/// ends the process. Where it is not, or the default would not end the process (PID 1 of a
/// namespace), it stays as it is. What is returned takes the registration back when it goes; it
/// waits for a drain that is under way.
std::shared_ptr<void> drainOnTermination(TerminationDrain drain);

} // namespace tally::runtime

#endif
