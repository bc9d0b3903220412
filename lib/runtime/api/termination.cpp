#include "api/termination.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <future>
#include <list>
#include <memory>
#include <mutex>
#include <pthread.h>
#include <semaphore.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace tally::runtime {

namespace {

std::atomic<bool> watching{false};
std::atomic<pid_t> owner{0};
sem_t requested; ///< a semaphore, since the program could close a file under the handler

/// Sends SIGTERM with the default action. On a thread that blocks it, it stays pending until
/// unblocked.
void sendByDefault() {
  struct sigaction byDefault{};
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

/// The registered drains. Never destroyed: the thread may use them while static objects end.
struct Registered {
  std::mutex mutex; ///< held while the drains run
  std::list<TerminationDrain> drains;
  static Registered &get() {
    static auto *all = new Registered;
    return *all;
  }
};

/// Runs the drains on another thread and waits with a limit, since a driver call that does not
/// return cannot be ended.
void drainWithin() {
  Registered &all = Registered::get();
  std::chrono::milliseconds limit{0};
  std::vector<std::function<void()>> tooLate;
  {
    std::unique_lock lock(all.mutex);
    for (const TerminationDrain &each : all.drains) {
      limit = std::max(limit, each.limit);
      tooLate.push_back(each.tooLate);
    }
  }
  auto over = std::make_shared<std::promise<void>>();
  std::future<void> ended = over->get_future();
  std::thread([over, &all] {
    std::unique_lock lock(all.mutex);
    for (const TerminationDrain &each : all.drains)
      each.drain();
    over->set_value();
  }).detach();
  if (ended.wait_for(limit) != std::future_status::ready)
    for (const std::function<void()> &each : tooLate)
      each();
}

void awaitTermination() {
  sigset_t set;
  sigfillset(&set);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  while (sem_wait(&requested) != 0) {
  }
  try {
    drainWithin();
  } catch (const std::system_error &) { // NOLINT(bugprone-empty-catch)
    // No thread could be started: the process ends as without Tally.
  }
  sendByDefault();
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  _exit(128 + SIGTERM); // only where a tracer keeps the signal back
}

/// Sets SIGTERM back to its default in a forked child.
void leaveInChild() {
  struct sigaction now{};
  if (sigaction(SIGTERM, nullptr, &now) != 0 || !isOurs(now))
    return;
  struct sigaction byDefault{};
  byDefault.sa_handler = SIG_DFL;
  sigaction(SIGTERM, &byDefault, nullptr);
}

void install() {
  struct sigaction now{};
  // By default SIGTERM does not end the first process of a PID namespace.
  if (getpid() == 1 || watching.exchange(true) || sigaction(SIGTERM, nullptr, &now) != 0 ||
      (now.sa_flags & SA_SIGINFO) != 0 || now.sa_handler != SIG_DFL)
    return;
  sem_init(&requested, 0, 0);
  owner = getpid();
  pthread_atfork(nullptr, nullptr, leaveInChild);
  try {
    std::thread(awaitTermination).detach();
  } catch (const std::system_error &) {
    return; // SIGTERM stays as it was
  }
  struct sigaction ours{};
  ours.sa_handler = tallyOnTermination;
  ours.sa_flags = SA_RESTART;
  struct sigaction before{};
  // The program may have set its own handler meanwhile.
  if (sigaction(SIGTERM, &ours, &before) == 0 &&
      ((before.sa_flags & SA_SIGINFO) != 0 || before.sa_handler != SIG_DFL))
    sigaction(SIGTERM, &before, nullptr);
}

} // namespace

std::shared_ptr<void> drainOnTermination(TerminationDrain drain) {
  Registered &all = Registered::get();
  std::list<TerminationDrain>::iterator place;
  {
    std::unique_lock lock(all.mutex);
    place = all.drains.insert(all.drains.end(), std::move(drain));
  }
  install();
  return {nullptr, [&all, place](void *) {
            // A forked child has no draining thread, and its copy of the lock may be held for ever.
            if (owner.load() != 0 && getpid() != owner.load())
              return;
            std::unique_lock lock(all.mutex);
            all.drains.erase(place);
          }};
}

} // namespace tally::runtime
