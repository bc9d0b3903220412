// Which best-effort work held requests up in a recorded run, and what would help.
#ifndef TALLY_LAUNCHER_ADVISE_H
#define TALLY_LAUNCHER_ADVISE_H

#include "command_line.h"
#include "trace_file.h"

#include <string>
#include <string_view>
#include <vector>

namespace tally::launcher {

/// Work of one name and kind that ran when requests came.
struct Holder {
  std::string name, kind;
  std::uint64_t times = 0;       ///< requests that found it running
  double longest = 0, total = 0; ///< microseconds from a request until it was gone
};

/// The longest first. Work is charged for the part of its time that lies in a turnaround: from a
/// request until the host saw all gone.
std::vector<Holder> holdersOf(const ProcessTrace &trace);

/// What would make work of this name and kind yield sooner: a sentence for each sort of work.
std::string_view adviceFor(std::string_view name, std::string_view kind);

/// What is said of a process.
std::string advice(const ProcessTrace &trace, double over);

/// `tally advise`: writes it for each file. The exit status: 1 where a file is none.
int advise(const AdviseOptions &options);

} // namespace tally::launcher

#endif
