#include "memory_budget.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

using tally::ptxopt::MemoryBudget;

namespace {

/// Checks that a request for `wanted` bytes waits while `held` exists; then releases `held`.
void checkWaits(MemoryBudget &budget, std::optional<MemoryBudget::Share> &held,
                std::uint64_t wanted) {
  std::atomic<bool> taken = false;
  std::thread other([&] {
    MemoryBudget::Share share(budget, wanted);
    taken = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK_FALSE(taken);
  held.reset();
  other.join();
  CHECK(taken);
}

} // namespace

TEST_CASE("a share that does not fit waits until others are back") {
  MemoryBudget budget(100);
  std::optional<MemoryBudget::Share> first(std::in_place, budget, 60);
  MemoryBudget::Share second(budget, 40);
  checkWaits(budget, first, 50);
}

TEST_CASE("a share of more than there is is given to the only user") {
  MemoryBudget budget(100);
  {
    MemoryBudget::Share share(budget, 1000);
  }
  std::optional<MemoryBudget::Share> share(std::in_place, budget, 1000);
  checkWaits(budget, share, 1);
}

TEST_CASE("the machine has memory") { CHECK(tally::ptxopt::availableMemory() > 1 << 20); }
