// The monitor of a process that has only high-priority work, and so no dispatcher. It closes the
// process's implicit scopes while best-effort processes may wait for that. Without best-effort
// processes it looks for them 50 times a second and does not ask the device anything.
#ifndef TALLY_LIB_RUNTIME_DISPATCH_HIGH_MONITOR_H
#define TALLY_LIB_RUNTIME_DISPATCH_HIGH_MONITOR_H

#include "dispatch/arena_link.h"
#include "requests/request_scope_tracker.h"

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace tally::runtime {

class HighMonitor {
public:
  /// The monitor's thread calls `prepare` first. `highPriority` and `link` must outlive the
  /// monitor.
  HighMonitor(RequestScopeTracker &highPriority, ArenaLink &link, std::function<void()> prepare);
  ~HighMonitor();
  HighMonitor(const HighMonitor &) = delete;
  HighMonitor &operator=(const HighMonitor &) = delete;

private:
  void run();
  /// Looks once; returns how long the thread may rest.
  Nanoseconds look();

  RequestScopeTracker &highPriority;
  ArenaLink &link;
  std::function<void()> prepare;
  Nanoseconds lastImplicit{0}, lastCleared{0}, lastNoted{0};
  std::mutex mutex;
  std::condition_variable stopped;
  bool stopping = false;
  std::thread thread;
};

} // namespace tally::runtime

#endif
