// How many runs of ptxas the machine's memory holds side by side.
#ifndef TALLY_TOOLS_PTXOPT_MEMORY_BUDGET_H
#define TALLY_TOOLS_PTXOPT_MEMORY_BUDGET_H

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace tally::ptxopt {

/// Bytes shared out among users. One user may take more than there is, if it is the only one.
/// Thread-safe.
class MemoryBudget {
public:
  explicit MemoryBudget(std::uint64_t bytes) : bytes(bytes) {}

  /// Held for as long as it lives.
  class Share {
  public:
    /// Waits until `wanted` bytes are free, or all are.
    Share(MemoryBudget &budget, std::uint64_t wanted) : budget(budget), wanted(wanted) {
      std::unique_lock lock(budget.mutex);
      budget.returned.wait(
          lock, [&] { return budget.taken == 0 || budget.taken + wanted <= budget.bytes; });
      budget.taken += wanted;
    }
    ~Share() {
      std::unique_lock lock(budget.mutex);
      budget.taken -= wanted;
      budget.returned.notify_all();
    }
    Share(const Share &) = delete;
    Share &operator=(const Share &) = delete;

  private:
    MemoryBudget &budget;
    std::uint64_t wanted;
  };

private:
  const std::uint64_t bytes;
  std::mutex mutex;
  std::condition_variable returned;
  std::uint64_t taken = 0;
};

/// MemAvailable of /proc/meminfo; as much as there may be where that cannot be read.
std::uint64_t availableMemory();

} // namespace tally::ptxopt

#endif
