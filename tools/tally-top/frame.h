// What was done between two looks at the arenas.
#ifndef TALLY_TOP_FRAME_H
#define TALLY_TOP_FRAME_H

#include "tally/runtime/arena_status.h"

#include <chrono>
#include <span>
#include <string>
#include <vector>

namespace tally::top {

/// One client over an interval. Of one that came meanwhile, since it came.
struct ClientRow {
  runtime::ClientStatus now;
  double launchesPerSecond = 0, yieldsPerSecond = 0, requestsPerSecond = 0;
  double missedPerSecond = 0; ///< high priority: deadlines
  double activeFraction = 0;  ///< high priority: of the interval, 0 to 1
  // Of a time that may be longer.
  runtime::Histogram turnaround;
  runtime::RequestHistogram requests;
};

struct ArenaFrame {
  std::string path, uuid;
  double seconds = 0; ///< of the interval
  std::vector<ClientRow> clients;
};

using Look = std::vector<runtime::ArenaStatus>;

/// Rates are those since `before`, histograms those since `longBefore`, which is no later.
std::vector<ArenaFrame> compare(const Look &longBefore, const Look &before, const Look &now);

} // namespace tally::top

#endif
