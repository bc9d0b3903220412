// Handles: a handle of a destroyed object stays invalid, even when its place is used again.
#include "base/handle_table.h"

#include <doctest/doctest.h>

#include <memory>
#include <vector>

using namespace tally::runtime;

TEST_CASE("a handle finds its entry until it is closed, and nothing afterwards") {
  HandleTable<int> table;
  CHECK(table.find(0) == nullptr);
  CHECK(table.find(1) == nullptr);
  CHECK(table.find(~std::uint64_t{0}) == nullptr);
  CHECK(table.describe(1) == "1");
  std::uint64_t first = *table.add(std::make_shared<int>(10));
  std::uint64_t second = *table.add(std::make_shared<int>(20));
  CHECK(first == 1);
  CHECK(second == 2);
  CHECK(*table.find(first) == 10);
  CHECK(*table.find(second) == 20);
  CHECK(table.describe(first) == "1");
  std::shared_ptr<int> closed = table.close(first);
  CHECK(*closed == 10);
  CHECK(table.find(first) == nullptr);
  CHECK(table.close(first) == nullptr);
  CHECK(table.describe(first) == "1, which was destroyed");
  // The table reuses the place only after the erase.
  CHECK(table.entries().size() == 2);
  CHECK(*table.add(std::make_shared<int>(30)) == 3);
  table.erase(first);
  CHECK(table.entries().size() == 2);
  CHECK(*closed == 10);
  std::uint64_t again = *table.add(std::make_shared<int>(40));
  CHECK((again & 0xffffffff) == 1);
  CHECK(again != first);
  CHECK(table.find(first) == nullptr);
  CHECK(table.close(first) == nullptr);
  CHECK(*table.find(again) == 40);
  CHECK(table.describe(first) == "1, which was destroyed");
  CHECK(table.describe(again) == "1");
  CHECK(table.describe(again + (std::uint64_t{1} << 32)) ==
        std::to_string(again + (std::uint64_t{1} << 32))); // never given
}

TEST_CASE("places are used again, whatever the order in which they were freed") {
  HandleTable<std::uint64_t> table;
  std::vector<std::uint64_t> handles, old;
  for (std::uint64_t round = 0; round < 2000; ++round) {
    handles.push_back(*table.add(std::make_shared<std::uint64_t>(round)));
    CHECK((handles.back() & 0xffffffff) <= 300);
    if (handles.size() < 300)
      continue;
    for (std::size_t i = 0; i < 150; ++i) {
      std::size_t pick = round * 7 % handles.size();
      REQUIRE(table.close(handles[pick]));
      table.erase(handles[pick]);
      old.push_back(handles[pick]);
      handles.erase(handles.begin() + static_cast<std::ptrdiff_t>(pick));
    }
  }
  CHECK(table.entries().size() == handles.size());
  for (std::uint64_t each : handles)
    CHECK(table.find(each) != nullptr);
  for (std::uint64_t each : old)
    CHECK(table.find(each) == nullptr);
}
