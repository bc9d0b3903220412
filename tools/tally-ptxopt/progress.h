// Shows the progress of long work on a terminal.
#ifndef TALLY_TOOLS_PTXOPT_PROGRESS_H
#define TALLY_TOOLS_PTXOPT_PROGRESS_H

#include <chrono>
#include <cstddef>
#include <mutex>

namespace tally::ptxopt {

/// One line on standard error, rewritten in place: the number of assembled kernels, of how many.
/// Shows nothing where standard error is no terminal, and nothing in the first second. Thread-safe.
class Progress {
public:
  explicit Progress(std::size_t kernels);
  /// Removes the line.
  ~Progress();
  Progress(const Progress &) = delete;
  Progress &operator=(const Progress &) = delete;

  void done(std::size_t kernels);

private:
  std::mutex mutex;
  std::size_t all, finished = 0;
  bool shows, shown = false;
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
};

} // namespace tally::ptxopt

#endif
