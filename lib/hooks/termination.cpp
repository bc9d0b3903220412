#include "termination.h"

#include "settings.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <future>
#include <memory>
#include <semaphore.h>
#include <string>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>

namespace tally::hooks {

namespace {

std::atomic<bool> watching{false};
std::atomic<pid_t> owner{0};
sem_t requested; ///< no file, which the program could close under the handler

/// SIGTERM as it is by default. On a thread that blocks it, it waits until that no longer does.
void sendByDefault() {
  struct sigaction byDefault {};
  byDefault.sa_handler = SIG_DFL;
  sigaction(SIGTERM, &byDefault, nullptr);
  raise(SIGTERM);
}

extern "C" void tallyOnTermination(int) {
  int before = errno;
  if (getpid() == owner.load())
    sem_post(&requested);
  else
    sendByDefault(); // comes when the handler returns
  errno = before;
}

bool isOurs(const struct sigaction &action) {
  return (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == tallyOnTermination;
}

/// Waits for `drain` on another thread, since nothing ends a call of the driver that does not come
/// back.
void drainWithin(const std::function<void()> &drain, std::chrono::milliseconds limit) {
  auto over = std::make_shared<std::promise<void>>();
  std::future<void> ended = over->get_future();
  std::thread([drain, over] {
    drain();
    over->set_value();
  }).detach();
  if (ended.wait_for(limit) != std::future_status::ready)
    warn(Warning::Termination, "SIGTERM: the device is not done after " +
                                   std::to_string(limit.count()) +
                                   " ms; the process ends with work on it");
}

void awaitTermination(const std::function<void()> &drain, std::chrono::milliseconds limit) {
  sigset_t set;
  sigfillset(&set);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  while (sem_wait(&requested) != 0) {
  }
  try {
    drainWithin(drain, limit);
  } catch (const std::system_error &) {
    // No thread to be had: the end comes as if tally were not there.
  }
  sendByDefault();
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  _exit(128 + SIGTERM); // only where a tracer keeps the signal back
}

} // namespace

void drainOnTermination(std::function<void()> drain, std::chrono::milliseconds limit) {
  struct sigaction now {};
  // By default the first process of a PID namespace is not ended by SIGTERM.
  if (getpid() == 1 || watching.exchange(true) || sigaction(SIGTERM, nullptr, &now) != 0 ||
      (now.sa_flags & SA_SIGINFO) != 0 || now.sa_handler != SIG_DFL)
    return;
  sem_init(&requested, 0, 0);
  owner = getpid();
  try {
    std::thread(awaitTermination, std::move(drain), limit).detach();
  } catch (const std::system_error &) {
    return; // SIGTERM stays as it was
  }
  struct sigaction ours {};
  ours.sa_handler = tallyOnTermination;
  ours.sa_flags = SA_RESTART;
  struct sigaction before {};
  // The program may have set its own meanwhile.
  if (sigaction(SIGTERM, &ours, &before) == 0 &&
      ((before.sa_flags & SA_SIGINFO) != 0 || before.sa_handler != SIG_DFL))
    sigaction(SIGTERM, &before, nullptr);
}

void leaveTerminationInChild() {
  struct sigaction now {};
  if (sigaction(SIGTERM, nullptr, &now) != 0 || !isOurs(now))
    return;
  struct sigaction byDefault {};
  byDefault.sa_handler = SIG_DFL;
  sigaction(SIGTERM, &byDefault, nullptr);
}

} // namespace tally::hooks
