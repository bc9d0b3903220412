// Gets the answer of a forked child within a time limit: a driver or an assembler that crashes or
// hangs must not take the launcher with it.
#ifndef TALLY_LAUNCHER_CHILD_ANSWER_H
#define TALLY_LAUNCHER_CHILD_ANSWER_H

#include <chrono>
#include <functional>
#include <string>

namespace tally::launcher {

struct ChildAnswer {
  std::string text; ///< the child's standard output, as far as it came
  /// "ended by signal 11 (Segmentation fault)", "no answer within 5 s" and the like; empty where
  /// the child ended by itself with status 0.
  std::string fault;
};

/// Runs `work` in a forked child. The child's standard output is the answer, its standard error is
/// discarded, and its status is the result of `work`. Kills the child when it has written nothing
/// for `limit`.
ChildAnswer askChild(const std::function<int()> &work, std::chrono::milliseconds limit);

} // namespace tally::launcher

#endif
