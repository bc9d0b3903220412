// Finds the best-effort work that held requests up in a recorded run, and advises on it.
#ifndef TALLY_LAUNCHER_ADVISE_H
#define TALLY_LAUNCHER_ADVISE_H

#include "command_line.h"
#include "trace_file.h"

#include <string>
#include <string_view>
#include <vector>

namespace tally::launcher {

/// Work of one name and kind that was running when requests came.
struct Holder {
  std::string name, kind;
  std::uint64_t times = 0;       ///< requests that found it running
  double longest = 0, total = 0; ///< microseconds from a request until the work was gone
};

/// Returns the holders, the longest first. A holder is charged for the part of its work that lies
/// in a turnaround: from a request until the host saw all work gone.
std::vector<Holder> holdersOf(const ProcessTrace &trace);

/// Returns a sentence on how to make work of this name and kind yield sooner.
std::string_view adviceFor(std::string_view name, std::string_view kind);

/// Returns the advice on a process.
std::string advice(const ProcessTrace &trace, double over);

/// `tally advise`: writes the advice on each file. Returns the exit status: 1 where a file is no
/// trace.
int advise(const AdviseOptions &options);

} // namespace tally::launcher

#endif
