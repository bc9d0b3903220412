// What a forked child says within a time limit: a driver or an assembler that crashes or hangs must
// not take the launcher with it.
#ifndef TALLY_LAUNCHER_CHILD_ANSWER_H
#define TALLY_LAUNCHER_CHILD_ANSWER_H

#include <chrono>
#include <functional>
#include <string>

namespace tally::launcher {

struct ChildAnswer {
  std::string text; ///< what it wrote to its standard output, as far as it came
  /// "ended by signal 11 (Segmentation fault)", "no answer within 5 s" and the like; empty where it
  /// ended by itself with status 0.
  std::string fault;
};

/// Runs `work` in a forked child, whose standard output is the answer and whose standard error goes
/// nowhere; the status of the child is what `work` returns. The child is killed when it has written
/// nothing for `limit`.
ChildAnswer askChild(const std::function<int()> &work, std::chrono::milliseconds limit);

} // namespace tally::launcher

#endif
