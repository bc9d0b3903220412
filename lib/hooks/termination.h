// SIGTERM in a process with best-effort work. By default it ends the process wherever its kernels
// are; under MPS the death of a client with kernels in flight may take the server, and with it the
// other clients, along. So where the program has left SIGTERM alone, it only starts the process's
// end: what runs yields and ends, and then the process dies by SIGTERM as it would have.
//
// The handler posts a semaphore, which a thread waits for; so nothing is done in the handler that a
// handler may not do, and the interrupted thread, which may hold any lock, goes on. In a child that
// has the handler from its parent (fork, vfork) SIGTERM does what it does by default.
#ifndef TALLY_LIB_HOOKS_TERMINATION_H
#define TALLY_LIB_HOOKS_TERMINATION_H

#include <chrono>
#include <functional>

namespace tally::hooks {

/// Where SIGTERM is at its default: from here on it calls `drain`, on a thread of its own, and ends
/// the process when that has returned or `limit` is over. Does nothing in a process that the
/// default does not end (PID 1 of a namespace), and the second time nothing.
void drainOnTermination(std::function<void()> drain, std::chrono::milliseconds limit);

/// In a forked child: SIGTERM is at its default again, where drainOnTermination() has changed that.
void leaveTerminationInChild();

} // namespace tally::hooks

#endif
