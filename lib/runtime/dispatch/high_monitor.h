// Closes the implicit scopes of a process that has high-priority work only, and so no dispatcher,
// while best-effort work of other processes waits for that. Without such processes it looks for
// them 50 times a second and asks the device nothing.
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
  /// `prepare` is called first by the monitor's thread. Both others must outlive it.
  HighMonitor(RequestScopeTracker &highPriority, ArenaLink &link, std::function<void()> prepare);
  ~HighMonitor();
  HighMonitor(const HighMonitor &) = delete;
  HighMonitor &operator=(const HighMonitor &) = delete;

private:
  void run();
  /// One look; how long to rest then.
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
