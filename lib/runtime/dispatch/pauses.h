// Decides when work that can pause is told to pause, and when it goes on.
#ifndef TALLY_LIB_RUNTIME_DISPATCH_PAUSES_H
#define TALLY_LIB_RUNTIME_DISPATCH_PAUSES_H

#include "dispatch/dispatcher_options.h"
#include "dispatch/lane_table.h"
#include "dispatch/pause_backoff.h"
#include "requests/request_scope_tracker.h"

#include <atomic>
#include <cstdint>
#include <optional>

namespace tally::runtime {

/// For the dispatcher's thread.
class Pauses {
public:
  /// The arguments must outlive this object. `closed`: the dispatcher sends nothing any more.
  Pauses(DeviceControl &control, RequestScopeTracker &scopes, const DispatcherOptions &options,
         const LaneTable &lanes, const std::atomic<bool> &closed)
      : control(control), scopes(scopes), options(options), lanes(lanes), closed(closed) {}

  /// Ends the pause if no scope is open any more, or if it must end.
  void end();
  void release(PauseEnd why);
  void expect() const;
  void choose();

private:
  std::optional<PauseEnd> mustEnd();
  bool isOverdue();
  bool areAllowed() const;
  void note(Nanoseconds since, PauseEnd why) const;

  DeviceControl &control;
  RequestScopeTracker &scopes;
  const DispatcherOptions &options;
  const LaneTable &lanes;
  const std::atomic<bool> &closed;
  Nanoseconds progressAt{0};      // last progress of high-priority work seen in a pause
  Nanoseconds callSeenAt{0};      // last change of `progressSeen` in a pause
  std::uint64_t progressSeen = 0; // RequestScopeTracker::progress() then
  int longRuns = 0;               // pauses ended although all requests were known to fit
  Nanoseconds lookedForProgress{0};
  PauseBackoff backoff;
};

} // namespace tally::runtime

#endif
