// Child processes of this executable, in the modes in which programs run.
#ifndef TALLY_TEST_HOOKS_STREAM_PROGRAMS_CHILDREN_H
#define TALLY_TEST_HOOKS_STREAM_PROGRAMS_CHILDREN_H

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tally::programs {

struct Mode {
  std::string_view name;
  std::vector<std::pair<std::string, std::string>> environment;
  std::vector<std::string> arguments;
};

/// Runs without Tally. On the emulator the hooks must serve the calls; no stream is best effort, so
/// they only pass the calls on.
const Mode &plainMode();
const std::vector<Mode> &tallyModes();

/// The counts of a child's best-effort work, from TALLY_STATS.
struct Counts {
  unsigned long long throughVariants = 0, nonPreemptible = 0, atOnce = 0, yields = 0, copies = 0,
                     waits = 0;
};

struct ChildResult {
  /// The child ended by itself, with status 0, and never exceeded the patience.
  bool finished = false;
  std::string ending; ///< the way in which the child ended, if it did not finish
  Counts counts;
};

/// Runs this executable in the mode with more arguments; `line` is called for each line that it
/// writes to standard output. `patience`: a longer time in seconds between two lines counts as a
/// hang. Passes on the lines of its standard error that no earlier child has written.
ChildResult runChild(const Mode &mode, const std::vector<std::string> &arguments, int patience,
                     const std::function<void(const std::string &)> &line);

} // namespace tally::programs

#endif
