// The activity between two looks at the arenas.
#ifndef TALLY_TOP_FRAME_H
#define TALLY_TOP_FRAME_H

#include "tally/runtime/arena_status.h"

#include <chrono>
#include <span>
#include <string>
#include <vector>

namespace tally::top {

/// One client over an interval; a client that came during the interval counts from its arrival.
struct ClientRow {
  runtime::ClientStatus now;
  double launchesPerSecond = 0, yieldsPerSecond = 0, requestsPerSecond = 0;
  double missedPerSecond = 0; ///< high priority: deadlines
  double activeFraction = 0;  ///< high priority: of the interval, 0 to 1
  // Histograms over a time that may be longer.
  runtime::Histogram turnaround;
  runtime::RequestHistogram requests;
};

struct ArenaFrame {
  std::string path, uuid;
  double seconds = 0; ///< of the interval
  std::vector<ClientRow> clients;
};

using Look = std::vector<runtime::ArenaStatus>;

/// Compares looks: rates cover the time since `before`, histograms the time since `longBefore`,
/// which is no later.
std::vector<ArenaFrame> compare(const Look &longBefore, const Look &before, const Look &now);

} // namespace tally::top

#endif
