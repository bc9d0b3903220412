// When what pauses is told to, and until when.
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
  /// All outlive this. `closed`: whether nothing is sent any more.
  Pauses(DeviceControl &control, RequestScopeTracker &scopes, const DispatcherOptions &options,
         const LaneTable &lanes, const std::atomic<bool> &closed)
      : control(control), scopes(scopes), options(options), lanes(lanes), closed(closed) {}

  /// Ends a pause whose requests are over, or that must end.
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
  Nanoseconds progressAt{0};      // of high-priority work during a pause, as far as it is seen
  Nanoseconds callSeenAt{0};      // likewise, of its calls and scopes
  std::uint64_t progressSeen = 0; // its calls and scopes then
  int longRuns = 0;               // pauses that were ended though all was known to fit
  Nanoseconds lookedForProgress{0};
  PauseBackoff backoff;
};

} // namespace tally::runtime

#endif
