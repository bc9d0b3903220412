// Reads a trace that TALLY_TRACE has written (docs/guide/watch.md), for the work that held requests
// up.
#ifndef TALLY_LAUNCHER_TRACE_FILE_H
#define TALLY_LAUNCHER_TRACE_FILE_H

#include "tally/support/result.h"

#include <cstdint>
#include <string>
#include <vector>

namespace tally::launcher {

/// Times are in microseconds, by the clock that all processes of a machine share.
struct TraceSlice {
  double start = 0, duration = 0;
  double end() const { return start + duration; }
};

/// A launch, a copy or a fill of best effort, or a group of them that bypassed the lanes.
struct TracedWork : TraceSlice {
  std::string name; ///< a kernel's name, or the sort of work; "at once" for a group
  std::string kind; ///< of a variant; else "non-preemptible", "copy", …; empty for a group
};

struct ProcessTrace {
  std::string program;
  std::uint64_t process = 0;
  std::uint64_t lostEvents = 0; ///< number of older events that did not fit
  std::uint64_t requests = 0;   ///< requests to yield, whether any work ran or not
  std::vector<TraceSlice> turnarounds;
  std::vector<TraceSlice> active; ///< intervals with high-priority work of any process
  std::vector<TracedWork> work;
};

/// Parses the trace of one process, one event per line in Tally's format. The error names the line.
Result<ProcessTrace> parseTrace(const std::string &text);
/// Parses the trace in a file; the error begins with the file's name.
Result<ProcessTrace> readTrace(const std::string &path);

} // namespace tally::launcher

#endif
