// A trace that TALLY_TRACE has written (docs/guide/watch.md), read for what held requests up.
#ifndef TALLY_LAUNCHER_TRACE_FILE_H
#define TALLY_LAUNCHER_TRACE_FILE_H

#include "tally/support/result.h"

#include <cstdint>
#include <string>
#include <vector>

namespace tally::launcher {

/// Times are in microseconds, of the clock that all processes of a machine have in common.
struct TraceSlice {
  double start = 0, duration = 0;
  double end() const { return start + duration; }
};

/// A launch, a copy or a fill of best effort, or a group of them that went past the lanes.
struct TracedWork : TraceSlice {
  std::string name; ///< a kernel's, or what it is; "at once" of a group
  std::string kind; ///< of a variant; else "non-preemptible", "copy", …; empty of a group
};

struct ProcessTrace {
  std::string program;
  std::uint64_t process = 0;
  std::uint64_t lostEvents = 0; ///< older ones that had no room
  std::uint64_t requests = 0;   ///< to yield, whether anything ran or not
  std::vector<TraceSlice> turnarounds;
  std::vector<TracedWork> work;
};

/// Reads the trace of one process, one event a line as Tally writes it. The error names the line.
Result<ProcessTrace> parseTrace(const std::string &text);
/// The same of a file, whose name the error begins with.
Result<ProcessTrace> readTrace(const std::string &path);

} // namespace tally::launcher

#endif
