// Child processes of this executable, in the ways in which programs are run.
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

/// Without tally; on the emulator, where something has to serve the calls, with nothing that is
/// best effort, so that the calls are only passed on.
const Mode &plainMode();
const std::vector<Mode> &tallyModes();

/// What TALLY_STATS says of a child's best-effort work.
struct Counts {
  unsigned long long throughVariants = 0, nonPreemptible = 0, atOnce = 0, yields = 0, copies = 0,
                     waits = 0;
};

struct ChildResult {
  bool finished = false; ///< it ended, with status 0, within the patience
  std::string ending;    ///< how, where it did not
  Counts counts;
};

/// Runs this executable in the mode with more arguments; `line` is called for each line that it
/// writes to standard output. `patience`: seconds between two lines that are taken for a hang. Of
/// its standard error, lines are passed on that no earlier child has written.
ChildResult runChild(const Mode &mode, const std::vector<std::string> &arguments, int patience,
                     const std::function<void(const std::string &)> &line);

} // namespace tally::programs

#endif
