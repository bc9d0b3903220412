#include "dispatch/high_monitor.h"

#include "requests/monitor_times.h"

#include <algorithm>
#include <sys/prctl.h>
#include <utility>

namespace tally::runtime {

using namespace std::chrono_literals;

namespace {

/// How often the monitor tests whether processes that seem to wait are alive.
constexpr Nanoseconds deathInterval = 1s;

} // namespace

HighMonitor::HighMonitor(RequestScopeTracker &highPriority, ArenaLink &link,
                         std::function<void()> prepare)
    : highPriority(highPriority), link(link), prepare(std::move(prepare)) {
  thread = std::thread([this] { run(); });
}

HighMonitor::~HighMonitor() {
  {
    std::unique_lock lock(mutex);
    stopping = true;
  }
  stopped.notify_one();
  thread.join();
}

void HighMonitor::run() {
  // By default the system may end a nap 50 us late; best-effort work would lose that time.
  prctl(PR_SET_TIMERSLACK, 1000);
  prepare();
  std::unique_lock lock(mutex);
  while (!stopping) {
    lock.unlock();
    Nanoseconds rest = look();
    lock.lock();
    stopped.wait_for(lock, rest, [&] { return stopping; });
  }
}

Nanoseconds HighMonitor::look() {
  Nanoseconds now = SteadyClock{}();
  if (now - lastNoted > noteInterval) {
    lastNoted = now;
    highPriority.noteCalls();
  }
  if (!link.isWaitedFor())
    return unwatchedNap;
  if (now - lastCleared > deathInterval) {
    lastCleared = now;
    link.clearDead();
  }
  if (highPriority.hasImplicit())
    lastImplicit = now;
  // If the device has failed, the streams' own calls report it.
  static_cast<void>(highPriority.monitor());
  return std::min(napWhileWatched(now - lastImplicit), highPriority.untilRest());
}

} // namespace tally::runtime
