// Limits the concurrent runs of ptxas to the machine's memory.
#ifndef TALLY_TOOLS_PTXOPT_MEMORY_BUDGET_H
#define TALLY_TOOLS_PTXOPT_MEMORY_BUDGET_H

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace tally::ptxopt {

/// Bytes shared among users. A user that is alone may take more than the budget. Thread-safe.
class MemoryBudget {
public:
  explicit MemoryBudget(std::uint64_t bytes) : bytes(bytes) {}

  /// A reservation that lasts as long as the object.
  class Share {
  public:
    /// Waits until `wanted` bytes are free, or the whole budget is.
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

/// Returns MemAvailable of /proc/meminfo; the largest number where that cannot be read.
std::uint64_t availableMemory();

} // namespace tally::ptxopt

#endif
