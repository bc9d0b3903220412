#include "memory_budget.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

using tally::ptxopt::MemoryBudget;

TEST_CASE("a share that does not fit waits until others are back") {
  MemoryBudget budget(100);
  std::optional<MemoryBudget::Share> first(std::in_place, budget, 60);
  MemoryBudget::Share second(budget, 40);
  std::atomic<bool> taken = false;
  std::thread third([&] {
    MemoryBudget::Share share(budget, 50);
    taken = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK_FALSE(taken);
  first.reset();
  third.join();
  CHECK(taken);
}

TEST_CASE("a share of more than there is is given to the only user") {
  MemoryBudget budget(100);
  {
    MemoryBudget::Share share(budget, 1000);
  }
  std::optional<MemoryBudget::Share> share(std::in_place, budget, 1000);
  std::atomic<bool> taken = false;
  std::thread other([&] {
    MemoryBudget::Share small(budget, 1);
    taken = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK_FALSE(taken);
  share.reset();
  other.join();
  CHECK(taken);
}

TEST_CASE("the machine has memory") { CHECK(tally::ptxopt::availableMemory() > 1 << 20); }
